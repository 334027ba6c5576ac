package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Pod is what is read of a core/v1 Pod.
type Pod struct {
	Metadata struct {
		Namespace         string     `yaml:"namespace"`
		Name              string     `yaml:"name"`
		UID               string     `yaml:"uid"`
		DeletionTimestamp *time.Time `yaml:"deletionTimestamp"`
	} `yaml:"metadata"`
	Spec struct {
		NodeName         string `yaml:"nodeName"`
		RuntimeClassName string `yaml:"runtimeClassName"`
	} `yaml:"spec"`
	Status struct {
		Phase             string      `yaml:"phase"`
		Reason            string      `yaml:"reason"`
		Message           string      `yaml:"message"`
		PodIP             string      `yaml:"podIP"`
		StartTime         time.Time   `yaml:"startTime"`
		Conditions        []condition `yaml:"conditions"`
		ContainerStatuses []container `yaml:"containerStatuses"`

		InitContainerStatuses []container `yaml:"initContainerStatuses"`
	} `yaml:"status"`
	Kind string `yaml:"kind"`
}

type condition struct {
	Type               string    `yaml:"type"`
	Status             string    `yaml:"status"`
	Reason             string    `yaml:"reason"`
	Message            string    `yaml:"message"`
	LastTransitionTime time.Time `yaml:"lastTransitionTime"`
}

type container struct {
	Name        string `yaml:"name"`
	ContainerID string `yaml:"containerID"`
	State       struct {
		Waiting *struct {
			Reason  string `yaml:"reason"`
			Message string `yaml:"message"`
		} `yaml:"waiting"`
		Running    *struct{} `yaml:"running"`
		Terminated *struct {
			Reason   string `yaml:"reason"`
			Message  string `yaml:"message"`
			ExitCode int    `yaml:"exitCode"`
		} `yaml:"terminated"`
	} `yaml:"state"`
}

// Name is namespace/name.
func (p Pod) Name() string { return p.Metadata.Namespace + "/" + p.Metadata.Name }

func (p Pod) condition(kind string) (condition, bool) {
	i := slices.IndexFunc(p.Status.Conditions, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return condition{}, false
	}
	return p.Status.Conditions[i], true
}

// Event is what is read of a core/v1 Event.
type Event struct {
	Kind           string    `yaml:"kind"`
	Type           string    `yaml:"type"`
	Reason         string    `yaml:"reason"`
	Message        string    `yaml:"message"`
	Count          int       `yaml:"count"`
	FirstTimestamp time.Time `yaml:"firstTimestamp"`
	LastTimestamp  time.Time `yaml:"lastTimestamp"`
	EventTime      time.Time `yaml:"eventTime"`
	Series         *struct {
		Count            int       `yaml:"count"`
		LastObservedTime time.Time `yaml:"lastObservedTime"`
	} `yaml:"series"`
	InvolvedObject struct {
		Kind      string `yaml:"kind"`
		Namespace string `yaml:"namespace"`
		Name      string `yaml:"name"`
		UID       string `yaml:"uid"`
	} `yaml:"involvedObject"`
}

// last is when it was seen last, in whichever form it says so.
func (e Event) last() time.Time {
	at := e.EventTime
	if e.LastTimestamp.After(at) {
		at = e.LastTimestamp
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime
	}
	return at
}

func (e Event) times() int {
	n := max(e.Count, 1)
	if e.Series != nil {
		n = max(n, e.Series.Count)
	}
	return n
}

// line is the event as evidence.
func (e Event) line() string {
	return fmt.Sprintf("event %s, %d times, last at %s: %s", e.Reason, e.times(), stamped(e.last()), printable([]byte(e.Message)))
}

// of reports whether an event is about a Pod: about this uid, not only this name.
func (e Event) of(p Pod) bool {
	o := e.InvolvedObject
	return o.Kind == "Pod" && o.Namespace == p.Metadata.Namespace && o.Name == p.Metadata.Name && (o.UID == "" || o.UID == p.Metadata.UID)
}

// ParsePods reads Pods as kubectl get pod -o yaml or json prints them.
func ParsePods(text []byte) ([]Pod, error) {
	return parseList(text, "Pod", func(p Pod) string { return p.Kind })
}

// ParseEvents reads Events as kubectl get events -o yaml or json prints them.
func ParseEvents(text []byte) ([]Event, error) {
	return parseList(text, "Event", func(e Event) string { return e.Kind })
}

// parseList reads documents that are an object or a list of objects of a kind. The
// objects of a PodList, as an API server sends it, have no kind of their own.
func parseList[T any](text []byte, kind string, kindOf func(T) string) ([]T, error) {
	var all []T
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document struct {
			Kind  string      `yaml:"kind"`
			Items []yaml.Node `yaml:"items"`
		}
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if err := n.Decode(&document); err != nil {
			return nil, err
		}
		items := []yaml.Node{n}
		if document.Kind == "List" || document.Kind == kind+"List" {
			items = document.Items
		}
		for _, item := range items {
			var v T
			if err := item.Decode(&v); err != nil {
				return nil, err
			}
			if got := kindOf(v); got != kind && (got != "" || document.Kind != kind+"List") {
				return nil, fmt.Errorf("line %d: kind %q; allowed: %s, or a list of them", item.Line, got, kind)
			}
			all = append(all, v)
		}
	}
}
