package identity

import (
	"fmt"
	"net/netip"
)

// mirrorAnnotation marks the API's reflection of a static Pod
// (k8s.io/kubernetes/pkg/kubelet/types, ConfigMirrorAnnotationKey).
const mirrorAnnotation = "kubernetes.io/config.mirror"

// Object is a Pod as the Kubernetes API writes it (core/v1), in the API's words
// and before anything is parsed. Each source fills it from what it reads, and
// [Object.Pod] is the one place that says what the words mean.
type Object struct {
	Namespace         string
	Name              string
	UID               string
	Labels            map[string]string
	Annotations       map[string]string
	DeletionTimestamp bool // metadata.deletionTimestamp is set
	HostNetwork       bool // spec.hostNetwork
	Phase             string
	PodIP             string
	PodIPs            []string
	HostIP            string
	HostIPs           []string
	Ready             bool // the condition Ready is True
}

// FieldError is a field of an [Object] that cannot be understood.
type FieldError struct {
	Field string // as a path, such as status.podIPs[0].ip
	Value string
	Err   error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %q: %v", e.Field, e.Value, e.Err) }

// Unwrap returns the rule that the field breaks.
func (e *FieldError) Unwrap() error { return e.Err }

// Pod says what the object means. selected is the operator's selector. Beside an
// error, which is a [*FieldError], the Pod is what could be understood, with
// Malformed set: a source that cannot refuse the object must still know that
// somebody holds those addresses.
func (o Object) Pod(selected func(labels map[string]string) bool) (Pod, error) {
	p := Pod{
		NamespacedName: NamespacedName{o.Namespace, o.Name},
		UID:            UID(o.UID), // whatever it is: a later delete must find it
		Ready:          o.Ready,
		Terminating:    o.DeletionTimestamp,
		HostNetwork:    o.HostNetwork,
		Selected:       selected(o.Labels),
	}
	_, p.Mirror = o.Annotations[mirrorAnnotation]

	var first error
	note := func(field, value string, err error) {
		if err != nil && first == nil {
			first = &FieldError{field, value, err}
			p.Malformed = first.Error()
		}
	}
	note("metadata.namespace", o.Namespace, checkNamespace(o.Namespace))
	note("metadata.name", o.Name, checkPodName(o.Name))
	var err error
	_, err = ParseUID(o.UID)
	note("metadata.uid", o.UID, err)
	p.Phase, err = parsePhase(o.Phase)
	note("status.phase", o.Phase, err)
	p.IPs = parseAddrs("status.podIPs", o.PodIPs, "status.podIP", o.PodIP, note)
	p.HostIPs = parseAddrs("status.hostIPs", o.HostIPs, "status.hostIP", o.HostIP, note)
	return p, first
}

// parseAddrs reads a list of addresses and the older single field beside it,
// which the API keeps equal to the list's first element. Where an object has it
// otherwise, both are held, and the object is malformed.
func parseAddrs(listField string, list []string, oneField, one string, note func(field, value string, err error)) []netip.Addr {
	var addrs []netip.Addr
	for i, text := range list {
		addr, err := ParseAddr(text)
		note(fmt.Sprintf("%s[%d].ip", listField, i), text, err)
		if err == nil {
			addrs = append(addrs, addr)
		}
	}
	if one == "" {
		return addrs
	}
	addr, err := ParseAddr(one)
	note(oneField, one, err)
	if err == nil && (len(addrs) == 0 || addrs[0] != addr) {
		if len(list) > 0 {
			note(oneField, one, fmt.Errorf("must equal %s[0].ip", listField))
		}
		addrs = append(addrs, addr)
	}
	return addrs
}
