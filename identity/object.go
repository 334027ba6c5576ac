package identity

import (
	"fmt"
	"net/netip"
	"slices"
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
	Owner             Owner
	Container         string // status.containerStatuses[].containerID of spec.containers[0]
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

// Keep says what is kept of Pods beyond what every verdict needs. The zero Keep
// keeps nothing more, and selects every Pod.
type Keep struct {
	// Selected is the operator's selector; nil selects every Pod.
	Selected func(labels map[string]string) bool
	// Owners are the kinds of controllers that are remembered, as in [Owner].
	Owners []string
	// Marks are keys of labels and annotations. Of a key that is both, the label counts.
	Marks []string
	// Containers remembers the id of the first container.
	Containers bool
}

// Pod says what the object means. Beside an error, which is a [*FieldError], the Pod is what could be understood, with
// Malformed set: a source that cannot refuse the object must still know that
// somebody holds those addresses.
func (o Object) Pod(keep Keep) (Pod, error) {
	p := Pod{
		NamespacedName: NamespacedName{o.Namespace, o.Name},
		UID:            UID(o.UID), // whatever it is: a later delete must find it
		Ready:          o.Ready,
		Terminating:    o.DeletionTimestamp,
		HostNetwork:    o.HostNetwork,
		Selected:       keep.Selected == nil || keep.Selected(o.Labels),
		Marks:          o.marks(keep.Marks),
	}
	if slices.Contains(keep.Owners, o.Owner.Kind) {
		p.Owner = o.Owner
	}
	if keep.Containers {
		p.Container = o.Container
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

// marks picks labels and annotations; nil if there are none.
func (o Object) marks(keys []string) map[string]string {
	var marks map[string]string
	for _, key := range keys {
		value, ok := o.Labels[key]
		if !ok {
			value, ok = o.Annotations[key]
		}
		if ok && marks == nil {
			marks = map[string]string{}
		}
		if ok {
			marks[key] = value
		}
	}
	return marks
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
