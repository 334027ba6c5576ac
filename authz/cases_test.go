package authz

import (
	"encoding/csv"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/samepod/samepod/identity"
)

// testdata/cases.tsv lists public failures of other systems that resolve or trust
// Pod addresses. Each line is replayed: here, if a world of Pods and a claim can
// show it; by the test that is named in elsewhere, if it needs a watch, a
// connection or an Envoy; or it waits for what is not built yet, and says so.

type replay struct {
	id    string
	what  string
	want  Reason
	claim identity.Claim
	world []any
}

var replays = func() []replay {
	a, b := pod("a", on(addrX)), pod("b", on(addrX))
	onA, onB := claim("a", "U-a", addrX), claim("b", "U-b", addrX)
	job := func(f identity.Phase) identity.Pod { return pod("job", on(addrX), phase(f)) }
	rebuilt := func(ip string) identity.Pod { return pod("a", uid("U-new"), on(ip)) }
	elsewhere := func(c identity.Claim, namespace string) identity.Claim { c.Pod.Namespace = namespace; return c }
	return []replay{
		{"1", "a tombstone of A after B has its address: A", PodGone, onA, []any{a, b, goneByKey(a)}},
		{"1", "a tombstone of A after B has its address: B", SamePod, onB, []any{a, b, goneByKey(a)}},
		{"2", "a completed Pod keeps the address: the one that runs", SamePod, onB, []any{pod("a", on(addrX), phase(succeeded)), b}},
		{"2", "a completed Pod keeps the address: itself", PodTerminal, onA, []any{pod("a", on(addrX), phase(succeeded)), b}},
		{"3", "deleted and added on the same address at once", SamePod, onB, []any{a, gone(a), b}},
		{"4", "asked before the address is known", PodNotReady, onA, []any{pod("a")}},
		{"4", "asked after", SamePod, onA, []any{pod("a"), a}},
		{"5", "no decision outlives the Pod", PodGone, onA, []any{a, gone(a)}},
		{"6", "two active Pods on one address, one pending: the one", IPAmbiguous, onA, []any{a, pod("b", on(addrX), phase(pending))}},
		{"6", "two active Pods on one address, one pending: the other", PodNotReady, onB, []any{a, pod("b", on(addrX), phase(pending))}},
		{"7", "a complete job is collected after its address was given on", SamePod, claim("w", "U-w", addrX), []any{job(running), job(succeeded), pod("w", on(addrX)), gone(job(succeeded))}},
		{"8", "a delayed delete meets the new Pod", SamePod, onB, []any{a, gone(a), b, gone(a)}},
		{"9", "a delayed delete meets the new Pod of the name", SamePod, claim("a", "U-new", addrX), []any{a, gone(a), rebuilt(addrX), gone(a)}},
		{"10", "the new Pod is added before the old is gone", IPAmbiguous, onB, []any{a, b}},
		{"10", "then the old one goes", SamePod, onB, []any{a, b, gone(a)}},
		{"11", "the same name in two namespaces: the address is the other's now", PodGone, onA, []any{a, gone(a), pod("a", in("other"), on(addrX))}},
		{"11", "the same name in two namespaces: out of scope", TargetNotAllowed, elsewhere(onA, "other"), []any{pod("a", in("other"), on(addrX))}},
		{"13", "rebuilt on another address: the old uid", PodReplaced, onA, []any{a, rebuilt(addrY)}},
		{"13", "rebuilt on another address: the new uid, the old address", IPMoved, claim("a", "U-new", addrX), []any{a, rebuilt(addrY)}},
		{"15", "rebuilt on the same address: the old uid", PodReplaced, onA, []any{a, rebuilt(addrX)}},
		{"16", "the last to come leaves first", SamePod, onA, []any{a, b, gone(b)}},
		{"17", "Pods of the host network", Unverifiable, onA, []any{pod("a", on(addrX), hostNetwork), pod("b", on(addrX), hostNetwork), pod("c", on(addrX), hostNetwork)}},
		{"18", "a late deletion of the first of two Pods", SamePod, onB, []any{a, b, gone(a), gone(a)}},
		{"18", "a late not-ready of the first of two Pods, which has ended", SamePod, onB, []any{a, b, pod("a", on(addrX), unready, phase(failed))}},
		{"19", "the old uid of a name that was taken again", PodReplaced, onA, []any{a, rebuilt(addrY)}},
		{"22", "resumed with a new uid and address: the old claim", PodReplaced, onA, []any{a, gone(a), rebuilt(addrY)}},
		{"29", "the address of a dead Pod comes, goes and comes again", PodTerminal, onA, []any{a, pod("a", phase(failed), on(addrX)), pod("a", phase(failed)), pod("a", phase(failed), on(addrX))}},
		{"29", "and its new holder", SamePod, onB, []any{a, pod("a", phase(failed)), b, pod("a", phase(failed), on(addrX))}},
		{"36", "a delete that carries an update", PodGone, onA, []any{a, gone(pod("a", on(addrY), phase(failed)))}},
		{"46", "a node is gone: its Pods are deleted gracefully", PodTerminating, onA, []any{pod("a", on(addrX), node("192.0.2.1")), pod("a", on(addrX), node("192.0.2.1"), terminating)}},
		{"46", "a node is gone: its address, given to a Pod, is no node's any more", SamePod, claim("b", "U-b", addrY), []any{pod("a", on(addrX), node(addrY)), gone(a), pod("b", on(addrY))}},
		{"62", "classes of addresses: metadata", AddressNotAllowed, claim("a", "U-a", "169.254.169.254"), []any{pod("a", on("169.254.169.254"))}},
		{"62", "classes of addresses: IPv6 loopback", AddressNotAllowed, claim("a", "U-a", "::1"), []any{pod("a", on("::1"))}},
	}
}()

// elsewhere names the test functions that replay the other lines, by package.
var elsewhere = map[string]string{
	"3":  "identity.TestRecreateThousandTimes",
	"4":  "lab.TestDeleteToDenial",
	"20": "identity.TestParseAddrPort",
	"23": "lab.TestPoolPartition",
	"25": "identity.TestEmptyAfterChurn",
	"30": "lab.TestStaleView",
	"31": "identity/kube.TestSilentWatch",
	"32": "identity/kube.TestNoTimeTravel",
	"33": "identity/kube.TestNoTimeTravel",
	"34": "identity/kube.TestNonsenseEvents",
	"36": "identity/kube.TestStreamingList",
	"37": "identity/kube.TestExpiredForLong",
	"38": "identity.TestEmptyAfterChurn",
	"39": "identity/kube.TestOldWordIsListedAnew",
	"40": "identity/kube.TestOrdinaryList",
	"41": "identity/kube.TestEndlessStreamingList",
	"44": "lab.TestQuietCluster",
	"45": "lab.TestBurst",
	"47": "identity.TestModel",
	"48": "authz.TestNeverAnError",
	"49": "lab.TestSamepodDown",
	"50": "authz.TestUndecodable",
	"51": "lab.TestAcceptance",
	"53": "lab.TestAcceptance",
	"54": "identity.TestParseAddrPort",
	"56": "authz.TestClaim",
	"57": "authz.TestClaim",
	"59": "identity.TestFreshness",
	"60": "identity.TestParseAddrPort",
	"62": "authz.TestAddresses",
	"64": "identity.TestParseAddrPort",
}

// later are the lines that need what is not built yet.
var later = map[string]string{
	"27": "the address moves between verdict and connect: only a fence in the Pod sees it",
	"42": "a watch that loses a deletion without an error: only the echo sees it",
	"58": "a route without the filter: a check of the operator's own Envoy configuration",
}

func TestCases(t *testing.T) {
	for _, r := range replays {
		if got := decide(r.claim, world(r.world...)); got.Reason != r.want {
			t.Errorf("%s: %s: %v, want %v", r.id, r.what, got.Reason, r.want)
		}
	}
}

// TestCasesAreAllThere: every line of the file is replayed somewhere, or said to
// be open; and what is named exists.
func TestCasesAreAllThere(t *testing.T) {
	f, err := os.Open("testdata/cases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := csv.NewReader(f)
	lines.Comma, lines.Comment, lines.LazyQuotes = '\t', '#', true
	lines.FieldsPerRecord = -1
	rows, err := lines.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, row := range rows[1:] {
		known[row[0]] = true
		here := false
		for _, r := range replays {
			here = here || r.id == row[0]
		}
		if !here && elsewhere[row[0]] == "" && later[row[0]] == "" {
			t.Errorf("line %s is replayed nowhere: %s", row[0], row[1])
		}
	}
	if len(known) < 50 {
		t.Errorf("only %d lines were read", len(known))
	}
	for id, name := range elsewhere {
		dir, function, _ := strings.Cut(name, ".")
		found := exec.Command("grep", "-rqE", `^func `+function+`\(`, "--include=*_test.go", "../"+dir)
		if err := found.Run(); err != nil || !known[id] {
			t.Errorf("line %s: no test %s", id, name)
		}
	}
	for id := range later {
		if !known[id] {
			t.Errorf("line %s does not exist", id)
		}
	}
}

// TestLateEvents plays every order of the events of two Pods on one address that
// the API may show, since it promises order per Pod only: no order ever lets a
// claim on the dead one through once its end was seen, nor keeps the live one
// denied once all was seen.
func TestLateEvents(t *testing.T) {
	ofA := []any{pod("a", on(addrX)), pod("a", on(addrX), phase(failed)), gone(pod("a"))}
	ofB := []any{pod("b", phase(pending)), pod("b", phase(pending), on(addrX)), pod("b", on(addrX))}
	orders := 0
	var merge func(done, a, b []any)
	merge = func(done, a, b []any) {
		index := world(done...)
		endSeen := len(a) <= 1
		if got := decide(claim("a", "U-a", addrX), index).Reason; got == SamePod && endSeen {
			t.Errorf("after %d events of A and %d of B a claim on A is allowed", len(ofA)-len(a), len(ofB)-len(b))
		}
		if len(a)+len(b) == 0 {
			orders++
			if got := decide(claim("b", "U-b", addrX), index).Reason; got != SamePod {
				t.Errorf("after all events a claim on B is %v", got)
			}
			return
		}
		if len(a) > 0 {
			merge(append(slices.Clip(done), a[0]), a[1:], b)
		}
		if len(b) > 0 {
			merge(append(slices.Clip(done), b[0]), a, b[1:])
		}
	}
	merge(nil, ofA, ofB)
	if orders != 20 {
		t.Errorf("%d orders of 3 and 3 events, want 20", orders)
	}
}
