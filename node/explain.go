package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Account is why a Pod does not start.
type Account struct {
	Pod          string `json:"pod"`
	Node         string `json:"node,omitempty"`
	RuntimeClass string `json:"runtimeClass,omitempty"`
	// Started says that the Pod has its sandbox, so there is nothing to explain here.
	Started bool `json:"started"`
	// Stage is how far it has come.
	Stage string `json:"stage"`
	// Class is what the last event is, [UnknownClass] if none says.
	Class string `json:"class"`
	// Cause is the class of the cause: of the event if that has it, else of the logs,
	// else [UnknownClass].
	Cause   string `json:"cause"`
	Meaning string `json:"meaning,omitempty"`
	// Evidence is what was said, and where; the first line is nearest to the cause.
	Evidence []string `json:"evidence"`
	Remedy   string   `json:"remedy"`
	// Notes are what makes the account uncertain.
	Notes []string `json:"notes,omitempty"`
}

// Known reports whether the cause is known, or there is nothing to explain.
func (a *Account) Known() bool { return a.Started || a.Cause != UnknownClass }

// readyToStart is the condition that the sandbox is there; below Kubernetes 1.28 it
// was called otherwise.
var readyToStart = []string{"PodReadyToStartContainers", "PodHasNetwork"}

// Explain joins a Pod, its events and the lines of its node's logs. Hits that are
// about the sandboxes which the events name count before all others.
func Explain(p Pod, events []Event, hits []Hit) Account {
	a := Account{Pod: p.Name(), Node: p.Spec.NodeName, RuntimeClass: p.Spec.RuntimeClassName, Class: UnknownClass, Cause: UnknownClass}
	mine := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return !e.of(p) })
	slices.SortStableFunc(mine, func(x, y Event) int { return y.last().Compare(x.last()) })
	a.notes(p, events, mine)
	a.stage(p)
	if a.Started {
		a.Remedy = "None for the sandbox."
		return a
	}
	first, ok := a.fromEvents(p, mine)
	if ok && (first.Kind == Cause || first.Kind == Later) {
		a.conclude(first)
	} else {
		a.fromLogs(first, mine, hits)
	}
	a.waits(mine)
	return a
}

func (a *Account) conclude(m Match) {
	a.Cause, a.Meaning, a.Remedy = m.Class, m.Meaning, m.Remedy
}

// stage is how far the Pod has come, by its conditions and containers. The condition
// decides while the Pod lives: containers of a sandbox that died keep their IDs, as on
// a node that was restarted for an upgrade.
func (a *Account) stage(p Pod) {
	known := false
	for _, name := range readyToStart {
		if c, ok := p.condition(name); ok {
			known = true
			a.Started = c.Status == "True"
			a.Evidence = append(a.Evidence, strings.TrimSpace(fmt.Sprintf("condition %s is %s since %s %s %s", name, c.Status, stamped(c.LastTransitionTime), c.Reason, printable([]byte(c.Message)))))
			break
		}
	}
	ended := p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded"
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		a.Started = a.Started || (!known || ended) && (c.ContainerID != "" || c.State.Running != nil)
	}
	switch scheduled, ok := p.condition("PodScheduled"); {
	case a.Started && ended:
		a.Stage = "the sandbox was there, and the Pod has ended: " + cmp.Or(p.Status.Reason, p.Status.Phase)
	case a.Started:
		a.Stage = "the sandbox is there"
	case ended:
		a.Stage = "the Pod has ended: " + cmp.Or(p.Status.Reason, p.Status.Phase)
	case p.Spec.NodeName == "" || ok && scheduled.Status != "True":
		a.Stage = "no node was chosen; the scheduler's events say why"
	default:
		a.Stage = "on its node, without a sandbox"
	}
}

// fromEvents finds what the newest event of a failure is. The status of a Pod that
// its kubelet refused counts as one.
func (a *Account) fromEvents(p Pod, mine []Event) (Match, bool) {
	if p.Status.Reason == "UnexpectedAdmissionError" {
		m := Classify([]byte(p.Status.Message))
		a.Class = m.Class
		a.Evidence = slices.Insert(a.Evidence, 0, "status: "+printable([]byte(p.Status.Message)))
		return m, true
	}
	var first Match
	found := false
	for _, e := range mine {
		if !slices.Contains(failures, e.Reason) {
			continue
		}
		m := Classify([]byte(e.Message))
		switch {
		case !found:
			first, found = m, true
			a.Class = m.Class
			a.Evidence = slices.Insert(a.Evidence, 0, e.line())
		case first.Kind == Symptom && m.Known() && m.Kind != Symptom:
			// What it follows from came before.
			first, a.Class = m, m.Class
			a.Evidence = slices.Insert(a.Evidence, 0, e.line())
		}
	}
	return first, found
}

// failures are the reasons of events that say why there is no sandbox.
var failures = []string{"FailedCreatePodSandBox", "FailedPodSandBoxStatus", "FailedCreatePodContainer", "NetworkNotReady", "UnexpectedAdmissionError"}

// before are reasons of events of what a sandbox waits for.
var before = []string{"FailedMount", "FailedAttachVolume", "FailedPrepareDynamicResources", "FailedScheduling"}

// waits says what else the Pod waits for. The kubelet tries a sandbox only when its
// volumes and devices are there: an event of those that is newer than the sandbox's
// failure is what blocks now, and comes first.
func (a *Account) waits(mine []Event) {
	failed := slices.IndexFunc(mine, func(e Event) bool { return slices.Contains(failures, e.Reason) })
	known := a.Known()
	var now []string
	for _, e := range mine {
		switch {
		case !slices.Contains(before, e.Reason):
		case failed >= 0 && e.last().After(mine[failed].last()):
			now = append(now, e.line())
		case !known:
			a.Notes = append(a.Notes, fmt.Sprintf("it may wait for something else: event %s: %s", e.Reason, printable([]byte(e.Message))))
		}
	}
	if len(now) > 0 {
		a.Evidence = slices.Concat(now, a.Evidence)
		a.Notes = append(a.Notes, "the newest event is not of the sandbox: what it says blocks the Pod now; class and cause are those of the sandbox's last failure")
		a.Remedy = "See to what the newest event says, first. Then: " + a.Remedy
	}
}

// fromLogs looks for the cause in the node's logs, of these sandboxes first.
func (a *Account) fromLogs(first Match, mine []Event, hits []Hit) {
	var ids []string
	for _, e := range mine {
		ids = append(ids, sandboxID.FindAllString(e.Message, -1)...)
	}
	about := slices.DeleteFunc(slices.Clone(hits), func(h Hit) bool { return h.Kind == Later || h.Kind == Symptom || !slices.Contains(ids, h.Sandbox) })
	reasons := Reasons(about)
	if len(reasons) == 0 && first.Class == "runsc-boot-eof" {
		others := Reasons(slices.DeleteFunc(slices.Clone(hits), func(h Hit) bool { return h.Kind != Cause }))
		for _, r := range others {
			a.Notes = append(a.Notes, fmt.Sprintf("another sandbox of the node: %s: %s: %s", r.Class, r.Place(), r.Text))
		}
	}
	if len(reasons) > 0 && reasons[0].Kind == Cause {
		r := reasons[0]
		a.conclude(r.Match)
		a.Evidence = slices.Insert(a.Evidence, 0, r.Place()+": "+r.Text)
		if link, ok := r.LinkOf(); ok {
			a.Evidence = slices.Insert(a.Evidence, 1, "the link: "+link.String())
		}
		return
	}
	if first.Class != "" {
		a.Meaning = first.Meaning
	}
	a.Remedy = cmp.Or(first.Remedy, "Look at the events of the Pod: kubectl get events; they are kept for an hour.")
	if a.Node != "" && len(hits) == 0 {
		a.Notes = append(a.Notes, "no log of the node was given; events of runsc never have the cause")
	}
}

// notes says what makes the account uncertain.
func (a *Account) notes(p Pod, events, mine []Event) {
	if len(mine) == 0 {
		a.Notes = append(a.Notes, "there is no event of this Pod; they are kept for an hour, and best effort")
	}
	for _, e := range events {
		if o := e.InvolvedObject; o.Kind == "Pod" && o.Name == p.Metadata.Name && o.Namespace == p.Metadata.Namespace && o.UID != "" && o.UID != p.Metadata.UID {
			a.Notes = append(a.Notes, fmt.Sprintf("events of uid %s are of another Pod of this name", o.UID))
			break
		}
	}
	for _, e := range mine {
		if at := e.last(); !at.IsZero() && !p.Status.StartTime.IsZero() && at.Add(skew).Before(p.Status.StartTime) && e.Reason != "FailedScheduling" {
			a.Notes = append(a.Notes, fmt.Sprintf("an event of %s is older than the Pod's start of %s: clocks differ", stamped(at), stamped(p.Status.StartTime)))
			break
		}
	}
	if p.Metadata.DeletionTimestamp != nil {
		a.Notes = append(a.Notes, "the Pod is being deleted; the kubelet then reports no failures")
	}
}

func stamped(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}
