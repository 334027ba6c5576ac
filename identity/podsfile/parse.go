package podsfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/samepod/samepod/identity"
)

// pod is the part of a core/v1 Pod that is read. Every other field is ignored, so
// that the output of kubectl works as it is.
type pod struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Namespace         string            `yaml:"namespace"`
		Name              string            `yaml:"name"`
		UID               string            `yaml:"uid"`
		Labels            map[string]string `yaml:"labels"`
		Annotations       map[string]string `yaml:"annotations"`
		DeletionTimestamp *string           `yaml:"deletionTimestamp"`
		OwnerReferences   []struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Name       string `yaml:"name"`
			UID        string `yaml:"uid"`
			Controller bool   `yaml:"controller"`
		} `yaml:"ownerReferences"`
	} `yaml:"metadata"`
	Spec struct {
		HostNetwork bool `yaml:"hostNetwork"`
		Containers  []struct {
			Name string `yaml:"name"`
		} `yaml:"containers"`
	} `yaml:"spec"`
	Status struct {
		Phase      string `yaml:"phase"`
		PodIP      string `yaml:"podIP"`
		PodIPs     []ip   `yaml:"podIPs"`
		HostIP     string `yaml:"hostIP"`
		HostIPs    []ip   `yaml:"hostIPs"`
		Conditions []struct {
			Type   string `yaml:"type"`
			Status string `yaml:"status"`
		} `yaml:"conditions"`
		ContainerStatuses []struct {
			Name        string `yaml:"name"`
			ContainerID string `yaml:"containerID"`
		} `yaml:"containerStatuses"`
	} `yaml:"status"`
}

type ip struct {
	IP string `yaml:"ip"`
}

func ips(list []ip) []string {
	texts := make([]string, len(list))
	for i, entry := range list {
		texts[i] = entry.IP
	}
	return texts
}

func (p *pod) object() identity.Object {
	o := identity.Object{
		Namespace: p.Metadata.Namespace, Name: p.Metadata.Name, UID: p.Metadata.UID,
		Labels: p.Metadata.Labels, Annotations: p.Metadata.Annotations,
		DeletionTimestamp: p.Metadata.DeletionTimestamp != nil,
		HostNetwork:       p.Spec.HostNetwork,
		Phase:             p.Status.Phase,
		PodIP:             p.Status.PodIP, PodIPs: ips(p.Status.PodIPs),
		HostIP: p.Status.HostIP, HostIPs: ips(p.Status.HostIPs),
	}
	for _, owner := range p.Metadata.OwnerReferences {
		if owner.Controller {
			group, _, _ := strings.Cut(owner.APIVersion, "/")
			o.Owner = identity.Owner{Kind: owner.Kind + "." + group, Name: owner.Name, UID: identity.UID(owner.UID)}
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if len(p.Spec.Containers) > 0 && c.Name == p.Spec.Containers[0].Name {
			o.Container = c.ContainerID
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			o.Ready = c.Status == "True"
		}
	}
	return o
}

// Parse reads Pods from YAML or JSON: any number of documents, each a Pod, a
// PodList or a List of Pods. Anything else,
// a Pod that cannot be understood, and a name or uid that occurs twice is an
// error with its line, and then there are no Pods: half a list would hide the
// other half's claim to an address.
func Parse(data []byte, keep identity.Keep) ([]identity.Pod, error) {
	r := reader{keep: keep, names: map[identity.NamespacedName]int{}, uids: map[identity.UID]int{}}
	found := false
	for stream := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		switch err := stream.Decode(&doc); {
		case errors.Is(err, io.EOF) && !found:
			// An editor or a copy that is not finished leaves an empty file.
			return nil, errors.New("line 1: empty; a list of no Pods is written {kind: List, items: []}")
		case errors.Is(err, io.EOF):
			return r.pods, nil
		case err != nil:
			return nil, yamlError(err)
		}
		body := doc.Content[0]
		if body.Tag == "!!null" {
			continue // nothing between two markers
		}
		found = true
		if err := r.document(body); err != nil {
			return nil, err
		}
	}
}

// reader collects Pods and remembers on which line each name and uid stands.
type reader struct {
	keep  identity.Keep
	pods  []identity.Pod
	names map[identity.NamespacedName]int
	uids  map[identity.UID]int
}

func (r *reader) document(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: must be a mapping: a Pod, PodList or List", node.Line)
	}
	var head struct {
		Kind  string    `yaml:"kind"`
		Items yaml.Node `yaml:"items"`
	}
	if err := node.Decode(&head); err != nil {
		return yamlError(err)
	}
	switch head.Kind {
	case "Pod":
		return r.pod(node, true)
	case "PodList", "List":
		if head.Items.Kind != yaml.SequenceNode {
			// Without items it may be the beginning of a file that is being written.
			return errorAt(node, "items", errors.New("items: missing; allowed: a list, as in {kind: List, items: []}"))
		}
		for _, item := range head.Items.Content {
			// kubectl writes the kind of each item of a List; the API's own PodList
			// leaves it out.
			if err := r.pod(item, head.Kind == "List"); err != nil {
				return err
			}
		}
		return nil
	}
	return errorAt(node, "kind", fmt.Errorf("kind: %q; allowed: Pod, PodList, List", head.Kind))
}

func (r *reader) pod(node *yaml.Node, kindRequired bool) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	var p pod
	if err := node.Decode(&p); err != nil {
		return yamlError(err)
	}
	if err := refuseMisspelt(node, reflect.TypeFor[pod]()); err != nil {
		return err
	}
	if p.Kind != "Pod" && (kindRequired || p.Kind != "") {
		return errorAt(node, "kind", fmt.Errorf("kind: %q; allowed: Pod", p.Kind))
	}
	got, err := p.object().Pod(r.keep)
	if fieldErr, ok := errors.AsType[*identity.FieldError](err); ok {
		return errorAt(node, fieldErr.Field, fmt.Errorf("pod %s: %w", got.NamespacedName, err))
	}
	if first, taken := r.names[got.NamespacedName]; taken {
		return errorAt(node, "metadata.name", fmt.Errorf("pod %s: occurs already at line %d", got.NamespacedName, first))
	}
	if first, taken := r.uids[got.UID]; taken {
		return errorAt(node, "metadata.uid", fmt.Errorf("pod %s: metadata.uid: %q: another Pod has it, at line %d", got.NamespacedName, got.UID, first))
	}
	r.names[got.NamespacedName], r.uids[got.UID] = line(node, "metadata.name"), line(node, "metadata.uid")
	r.pods = append(r.pods, got)
	return nil
}

// refuseMisspelt refuses keys that differ from one that is read in case only:
// hostnetwork would be ignored, and the node's address taken for the Pod's.
func refuseMisspelt(node *yaml.Node, t reflect.Type) error {
	if t.Kind() != reflect.Struct || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		for f := range t.Fields() {
			name := f.Tag.Get("yaml")
			switch {
			case key.Value == name:
				if err := refuseMisspelt(node.Content[i+1], f.Type); err != nil {
					return err
				}
			case strings.EqualFold(key.Value, name):
				return fmt.Errorf("line %d: %s: unknown key; allowed: %s", key.Line, key.Value, name)
			}
		}
	}
	return nil
}

// yamlError is the library's error as "line n: message", in YAML's words.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		text = goType.ReplaceAllStringFunc(e.Errors[0], func(into string) string {
			switch {
			case strings.HasPrefix(into, " into []"):
				return "; allowed: a list"
			case into == " into string", into == " into bool":
				return "; allowed: a " + strings.TrimPrefix(into, " into ")
			}
			return "; allowed: a mapping"
		})
	}
	return errors.New(text)
}

// goType is how the library names what a value should have been.
var goType = regexp.MustCompile(` into .*$`)

// errorAt places err at a field of node.
func errorAt(node *yaml.Node, field string, err error) error {
	return fmt.Errorf("line %d: %w", line(node, field), err)
}

// line is where a field such as status.podIPs[1].ip stands, or as much of the way
// there as exists.
func line(node *yaml.Node, field string) int {
	for key := range strings.FieldsFuncSeq(field, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		next := child(node, key)
		if next == nil {
			break
		}
		node = next
	}
	return node.Line
}

// child is the value of a key of a mapping, or the element of a sequence.
func child(node *yaml.Node, key string) *yaml.Node {
	if node.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(key); err == nil && i < len(node.Content) {
			return node.Content[i]
		}
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}
