package lab

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
)

// PodRecord is a Pod as a file of Pods has it.
type PodRecord struct {
	Namespace, Name, UID, Phase string
	Addr                        netip.Addr // invalid for none
	Second                      netip.Addr // of the other family; invalid for none
}

// WritePods writes a file of Pods, as somebody who takes care does: beside it, and
// then renamed.
func WritePods(path string, pods []PodRecord) error {
	type object map[string]any
	items := make([]object, len(pods))
	for i, p := range pods {
		status := object{"phase": p.Phase}
		var ips []object
		for _, addr := range []netip.Addr{p.Addr, p.Second} {
			if addr.IsValid() {
				ips = append(ips, object{"ip": addr})
			}
		}
		if ips != nil {
			status["podIPs"] = ips
		}
		items[i] = object{"kind": "Pod", "metadata": object{"namespace": p.Namespace, "name": p.Name, "uid": p.UID}, "status": status}
	}
	text, err := json.MarshalIndent(object{"kind": "List", "items": items}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// WriteConfig writes a configuration of samepod for Pods of one namespace that
// listen as the lab's do, on these addresses.
func WriteConfig(path, namespace string, addresses ...netip.Prefix) error {
	cidrs, err := json.Marshal(addresses)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("scope: {namespaces: [%s]}\nports: [%d]\naddresses: {cidrs: %s}\n", namespace, ExecdPort, cidrs)
	return os.WriteFile(path, []byte(text), 0o600)
}
