package identity_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/samepod/samepod/identity"
)

// TestObject changes one thing of a valid object a line.
func TestObject(t *testing.T) {
	type object = identity.Object
	owner := identity.Owner{Kind: "Sandbox.agents.x-k8s.io", Name: "s", UID: "S"}
	base := object{
		Namespace: "ns", Name: "a", UID: "A", Phase: "Running", Ready: true,
		PodIP: x, PodIPs: []string{x, v6}, HostIP: nodeAddress, HostIPs: []string{nodeAddress},
	}
	for _, tc := range []struct {
		rule   string
		change func(*object)
		field  string // the field that is wrong; "" if none
		want   func(*identity.Pod)
	}{
		{"valid", func(*object) {}, "", nil},
		{"terminating", func(o *object) { o.DeletionTimestamp = true }, "", func(p *identity.Pod) { p.Terminating = true }},
		{"host network", func(o *object) { o.HostNetwork = true }, "", func(p *identity.Pod) { p.HostNetwork = true }},
		{"mirror", func(o *object) { o.Annotations = map[string]string{"kubernetes.io/config.mirror": "hash"} }, "", func(p *identity.Pod) { p.Mirror = true }},
		{"an empty mirror annotation is one too", func(o *object) { o.Annotations = map[string]string{"kubernetes.io/config.mirror": ""} }, "", func(p *identity.Pod) { p.Mirror = true }},
		{"another annotation is not", func(o *object) { o.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }, "", nil},
		{"not selected", func(o *object) { o.Labels = map[string]string{"no": ""} }, "", func(p *identity.Pod) { p.Selected = false }},
		{"no status yet", func(o *object) {
			o.Phase, o.PodIP, o.PodIPs, o.HostIP, o.HostIPs = "", "", nil, "", nil
		}, "", func(p *identity.Pod) {
			p.Phase, p.IPs, p.HostIPs = identity.PhaseUnknown, nil, nil
		}},
		{"the single field alone", func(o *object) { o.PodIPs = nil }, "", func(p *identity.Pod) { p.IPs = addrs(x) }},
		{"the list alone", func(o *object) { o.PodIP = "" }, "", nil},
		{"a controller of another kind is not kept", func(o *object) { o.Owner = identity.Owner{Kind: "Job.batch", Name: "j", UID: "J"} }, "", nil},
		{"a controller", func(o *object) { o.Owner = owner }, "", func(p *identity.Pod) { p.Owner = owner }},
		{"marks: labels before annotations, and no others", func(o *object) {
			o.Labels, o.Annotations = map[string]string{"k": "label", "l": "x"}, map[string]string{"k": "annotation", "m": ""}
		}, "", func(p *identity.Pod) { p.Marks = map[string]string{"k": "label", "m": ""} }},
		{"the container", func(o *object) { o.Container = "x://1" }, "", func(p *identity.Pod) { p.Container = "x://1" }},
		{"a mapped address is unmapped", func(o *object) { o.PodIP, o.PodIPs = "", []string{"::ffff:" + x} }, "", func(p *identity.Pod) { p.IPs = addrs(x) }},

		{"no uid", func(o *object) { o.UID = "" }, "metadata.uid", func(p *identity.Pod) { p.UID = "" }},
		{"no name", func(o *object) { o.Name = "" }, "metadata.name", func(p *identity.Pod) { p.Name = "" }},
		{"no namespace", func(o *object) { o.Namespace = "" }, "metadata.namespace", func(p *identity.Pod) { p.Namespace = "" }},
		{"unheard-of phase", func(o *object) { o.Phase = "Sleeping" }, "status.phase", func(p *identity.Pod) { p.Phase = identity.PhaseUnknown }},
		{"an address with a zone; the other is held", func(o *object) { o.PodIP, o.PodIPs = "", []string{"fe80::1%eth0", x} }, "status.podIPs[0].ip", func(p *identity.Pod) { p.IPs = addrs(x) }},
		{"an empty address", func(o *object) { o.PodIPs = []string{x, ""} }, "status.podIPs[1].ip", func(p *identity.Pod) { p.IPs = addrs(x) }},
		{"two truths: both are held", func(o *object) { o.PodIP = y }, "status.podIP", func(p *identity.Pod) { p.IPs = addrs(x, v6, y) }},
		{"a node address that is none", func(o *object) { o.HostIP, o.HostIPs = "", []string{"node-1"} }, "status.hostIPs[0].ip", func(p *identity.Pod) { p.HostIPs = nil }},
	} {
		o := base
		tc.change(&o)
		want := identity.Pod{NamespacedName: name("a"), UID: "A", Phase: running, IPs: addrs(x, v6), HostIPs: addrs(nodeAddress), Ready: true, Selected: true}
		if tc.want != nil {
			tc.want(&want)
		}
		got, err := o.Pod(identity.Keep{
			Selected: func(labels map[string]string) bool { _, no := labels["no"]; return !no },
			Owners:   []string{owner.Kind}, Marks: []string{"k", "m"}, Containers: true,
		})
		field := ""
		if e, ok := errors.AsType[*identity.FieldError](err); ok {
			field = e.Field
			want.Malformed = e.Error()
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" || field != tc.field {
			t.Errorf("%s: field %q, want %q (-want +got):\n%s", tc.rule, field, tc.field, diff)
		}
	}
}
