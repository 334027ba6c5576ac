package opensandbox_test

import (
	"testing"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/opensandbox"
)

// TestRefuse is what stands on a Pod, for a sandbox named a, one Pod a line.
func TestRefuse(t *testing.T) {
	record := func(text string) podOption { return mark(restartRecord, text) }
	for _, tc := range []struct {
		rule string
		edit edit
		pod  identity.Pod
		want identity.TargetState
	}{
		{"nothing", pooled("pool"), pod("p-1"), identity.Bound},
		{"the Pool's name", pooled("pool"), poolPod("p-1"), identity.Bound},
		{"another Pool's name", pooled("pool"), pod("p-1", mark(poolName, "other")), identity.PodForeign},
		{"an empty Pool's name", pooled("pool"), pod("p-1", mark(poolName, "")), identity.PodForeign},
		{"taken away from it", pooled("pool"), poolPod("p-1", record(`{"id":"a","containers":{"main":"c://1"}}`)), identity.Releasing},
		{"taken away from another", pooled("pool"), poolPod("p-1", record(`{"id":"b"}`)), identity.Bound},
		{"taken away from nobody", pooled("pool"), poolPod("p-1", record(`{}`)), identity.Bound},
		{"a broken record", pooled("pool"), poolPod("p-1", record(`{"id":`)), identity.SandboxUnreadable},
		{"an empty record", pooled("pool"), poolPod("p-1", record(``)), identity.SandboxUnreadable},
		{"a record of another form", pooled("pool"), poolPod("p-1", record(`{"id":1}`)), identity.SandboxUnreadable},
		{"its own Pod, with marks copied from a Pool's", both(), ownPod("a", mark(poolName, "pool"), record(`{"id":"a"}`)), identity.Bound},
	} {
		s := opensandbox.Decode(object("a", tc.edit), nil)
		if got := opensandbox.Refuse(&s, tc.pod); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.rule, got, tc.want)
		}
	}
}

// TestKeep: what Refuse and the Index read is kept of a Pod, and no more.
func TestKeep(t *testing.T) {
	object := identity.Object{
		Namespace: "ns", Name: "p-1", UID: "U", Phase: "Running", Container: "c://1",
		Labels:      map[string]string{poolName: "pool", "other": "x"},
		Annotations: map[string]string{restartRecord: "{}", "samepod.dev/pin": "x"},
		Owner:       identity.Owner{Kind: opensandbox.PoolKind, Name: "pool", UID: "P"},
	}
	p := must(object.Pod(opensandbox.Keep()))
	if len(p.Marks) != 2 || p.Marks[poolName] != "pool" || p.Marks[restartRecord] != "{}" || p.Owner != object.Owner {
		t.Errorf("%+v", p)
	}
}
