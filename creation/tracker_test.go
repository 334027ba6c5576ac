package creation

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOutcomes: one line is one Pod.
func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"normal", []step{{0, pod(bound(0))}, {1, pod(acknowledged(0))}, {3, pod(created(2))}}, "good condition 2s"},
		{"at the deadline", []step{{0, pod(bound(0), acknowledged(0))}, {61, pod(created(60))}}, "good condition 1m0s"},
		{"a second after it", []step{{0, pod(bound(0), acknowledged(0))}, {61, pod(created(61))}}, "bad condition; recovered condition 1m1s"},
		{"in time, told within the grace", []step{{0, pod(bound(0), acknowledged(0))}, {68, pod(created(59))}}, "good condition 59s"},
		{"never, and events tell", []step{{0, pod(bound(0), acknowledged(0))}, {5, failure("e", 1)}, {20, failure("e", 2)}}, "bad event runsc-boot-eof x2"},
		{"never, without events", []step{{0, pod(bound(0), acknowledged(0))}}, "bad condition"},
		{"never, before 1.29", []step{{0, pod(bound(0), func(w *world, p *Pod) { p.Acknowledged = w.second(1) })}}, "bad deadline"},
		{"recovers", []step{{0, pod(bound(0), acknowledged(0))}, {5, failure("e", 1)}, {95, pod(created(95))}}, "bad event runsc-boot-eof x1; recovered condition 1m35s"},
		{"fails and then in time", []step{{0, pod(bound(0), acknowledged(0))}, {5, failure("e", 1)}, {20, pod(created(20))}}, "good condition 20s"},
		{"a container is evidence", []step{{0, pod(bound(0))}, {9, pod(container(4))}}, "good container 4s"},
		{"an address is evidence", []step{{0, pod(bound(0))}, {4, pod(ip("10.0.0.1"))}}, "good podip 4s"},
		{"the node's address is none", []step{{0, pod(bound(0), hostNetwork, acknowledged(0), ip("192.0.2.1"))}}, "bad condition"},
		{"host network", []step{{0, pod(bound(0), hostNetwork, acknowledged(0), ip("192.0.2.1"))}, {2, pod(created(1))}}, "good condition 1s"},
		{"static Pods are nobody's", []step{{0, pod(bound(0), mirror, created(0))}, {9, gone()}}, ""},
		{"not scheduled", []step{{0, pod()}, {300, pod()}, {301, gone()}}, ""},
		{"scheduled late counts from then", []step{{0, pod()}, {300, pod(bound(300))}, {303, pod(isTrue(302))}}, "good condition 2s"},

		{"deleted early", []step{{0, pod(bound(0), acknowledged(0))}, {5, pod(deleted(5))}, {6, gone()}}, "excluded deleted_early"},
		{"deleted early, and it stays", []step{{0, pod(bound(0), acknowledged(0))}, {5, pod(deleted(5))}}, "excluded deleted_early"},
		{"deleted early after a failure", []step{{0, pod(bound(0), acknowledged(0))}, {4, failure("e", 1)}, {6, gone()}}, "bad event runsc-boot-eof x1"},
		{"deleted within the grace", []step{{0, pod(bound(0), acknowledged(0))}, {65, gone()}}, "bad condition"},
		{"deleted after a late verdict", []step{{0, pod(bound(0), acknowledged(0))}, {90, gone()}}, "bad condition"},
		{"volume", []step{{0, pod(bound(0), acknowledged(0))}, {9, event("e", "FailedMount", "timed out", 1)}}, "excluded volume event"},
		{"attach", []step{{0, pod(bound(0), acknowledged(0))}, {9, event("e", "FailedAttachVolume", "multi-attach", 1)}, {90, pod(created(89))}}, "excluded volume event"},
		{"volume, and in time", []step{{0, pod(bound(0), acknowledged(0))}, {9, event("e", "FailedMount", "timed out", 1)}, {30, pod(created(30))}}, "good condition 30s"},
		{"volume, and then the sandbox fails", []step{{0, pod(bound(0), acknowledged(0))}, {9, event("e", "FailedMount", "", 1)}, {20, failure("f", 1)}}, "bad event runsc-boot-eof x1"},
		{"dynamic resources", []step{{0, pod(bound(0), acknowledged(0))}, {9, event("e", "FailedPrepareDynamicResources", "", 1)}}, "excluded dra event"},
		{"not admitted", []step{{0, pod(bound(0))}, {1, pod(terminal("UnexpectedAdmissionError"))}}, "excluded admission phase"},
		{"no room", []step{{0, pod(bound(0))}, {1, pod(terminal("OutOfpods"))}}, "excluded admission phase"},
		{"evicted after a failure", []step{{0, pod(bound(0), acknowledged(0))}, {4, failure("e", 1)}, {9, pod(terminal("Evicted"))}}, "bad event runsc-boot-eof x1"},
		{"ends without a sandbox", []step{{0, pod(bound(0), acknowledged(0))}, {9, pod(terminal("DeadlineExceeded"))}}, "bad phase"},
		{"node down", []step{{-1, node(False, -20)}, {0, pod(bound(0))}}, "excluded node_down"},
		{"node down, found late", []step{{-1, node(True, -900)}, {0, pod(bound(0))}, {40, node(False, 40)}}, "excluded node_down"},
		{"node down and back", []step{{0, pod(bound(0))}, {30, node(True, 25)}}, "excluded node_down"},
		{"node up, down and back", []step{{-1, node(True, -900)}, {0, pod(bound(0), acknowledged(0))}, {5, failure("e", 1)}, {20, node(False, 20)}, {40, node(True, 38)}}, "bad event runsc-boot-eof x1"},
		{"node down, told late", []step{{-1, node(True, -900)}, {0, pod(bound(0))}, {3, node(False, -2)}}, "excluded node_down"},
		{"node down, and in time", []step{{-1, node(False, -20)}, {0, pod(bound(0))}, {30, pod(created(29))}}, "good condition 29s"},
		{"node up", []step{{-1, node(True, -900)}, {0, pod(bound(0), acknowledged(0))}}, "bad condition"},
		{"goes down later, after the kubelet's word", []step{{-1, node(True, -900)}, {0, pod(bound(0), acknowledged(0))}, {50, node(False, 50)}}, "bad condition"},
		{"the kubelet says nothing", []step{{-1, node(True, -900)}, {0, pod(bound(0))}}, "excluded silent"},

		{"bound before we began", []step{{0, pod(bound(-61), created(-60))}}, "excluded left_censored"},
		{"bound before we began, and still fails", []step{{0, pod(bound(-61), acknowledged(-61))}, {5, failure("e", 40)}}, "excluded left_censored"},
		{"bound just before we began, nobody counted", []step{{0, pod(bound(-59), created(-58))}}, "good condition 1s"},
		{"bound just before we began, and fails", []step{{0, pod(bound(-59), acknowledged(-59))}}, "bad condition"},
		{"seen first when it is old", []step{{500, pod(bound(300), acknowledged(300), created(301))}}, "excluded left_censored"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := play(t, Config{}, tc.steps...); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestGenerations: the same uid has another sandbox.
func TestGenerations(t *testing.T) {
	running := step{0, pod(bound(0), created(1), ip("10.0.0.1"))}
	for _, tc := range []struct {
		name  string
		steps []step
		want  string
	}{
		// kubelet-1.35.4-after-sandbox-kill.json: False was not seen, the address and the time moved.
		{"recorded", []step{{40, pod(isTrue(40), ip("10.0.0.2"))}}, "#2 good condition"},
		{"the end is seen", []step{{40, pod(isFalse(39))}, {42, pod(isTrue(41), ip("10.0.0.2"))}}, "#2 good condition 2s"},
		{"first the time, then the address", []step{{40, pod(isTrue(40))}, {41, pod(ip("10.0.0.2"))}}, "#2 good condition"},
		{"first the address, then the time", []step{{40, pod(ip("10.0.0.2"))}, {41, pod(isTrue(41))}}, "#2 good podip"},
		{"the same address again", []step{{40, pod(isTrue(40))}}, "#2 good condition"},
		{"twice", []step{{40, pod(isTrue(40), ip("10.0.0.2"))}, {50, pod(isTrue(50), ip("10.0.0.3"))}}, "#2 good condition; #3 good condition"},
		{"back to its old address", []step{{40, pod(isTrue(40), ip("10.0.0.2"))}, {50, pod(isTrue(50), ip("10.0.0.1"))}}, "#2 good condition; #3 good condition"},
		{"not made again in time", []step{{40, pod(isFalse(39))}, {50, failure("e", 3)}}, "#2 bad event runsc-boot-eof x3"},
		{"made again, late", []step{{40, pod(isFalse(39))}, {119, pod(isTrue(119))}}, "#2 bad condition; #2 recovered condition 1m20s"},
		{"old containers are no evidence", []step{{2, pod(container(2))}, {40, pod(isFalse(39))}}, "#2 bad condition"},
		{"the Pod ends", []step{{40, pod(isFalse(39), terminal(""))}, {50, gone()}}, ""},
		{"the Pod ends a little later", []step{{40, pod(isFalse(39))}, {41, pod(terminal(""))}}, ""},
		{"the Pod is deleted", []step{{40, pod(deleted(39), isFalse(39))}, {50, gone()}}, ""},
		{"the Pod is gone meanwhile", []step{{40, pod(isFalse(39))}, {50, gone()}}, ""},
		{"nothing", []step{{40, pod(ip("10.0.0.1"))}}, ""},
		{"the node's address moves", []step{{40, pod(hostNetwork, ip("192.0.2.9"))}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := "good condition 1s"
			if tc.want != "" {
				want += "; " + tc.want
			}
			if got := play(t, Config{}, append([]step{running}, tc.steps...)...); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	t.Run("a condition that comes late begins nothing", func(t *testing.T) {
		if got, want := play(t, Config{}, step{0, pod(bound(0), ip("10.0.0.1"))}, step{2, pod(isTrue(1))}, step{9, pod(isTrue(8), ip("10.0.0.2"))}), "good podip; #2 good condition"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("also of a Pod that is not ours to judge", func(t *testing.T) {
		if got, want := play(t, Config{}, step{0, pod(bound(-900), created(-890), ip("10.0.0.1"))}, step{9, pod(isTrue(8), ip("10.0.0.2"))}), "excluded left_censored; #2 good condition"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestHandover: of two replicas one after the other each Pod is judged once,
// whatever came of it. The first has stopped at -5, we begin at 0.
func TestHandover(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"good before", []step{{0, pod(bound(-20), created(-19))}}, "excluded left_censored"},
		{"good between", []step{{0, pod(bound(-20), isTrue(-3))}}, "good condition 17s"},
		{"good after", []step{{0, pod(bound(-20), acknowledged(-20))}, {9, pod(isTrue(8))}}, "good condition 28s"},
		{"bad before", []step{{0, pod(bound(-90), acknowledged(-90))}}, "excluded left_censored"},
		{"bad between", []step{{0, pod(bound(-73), acknowledged(-73))}}, "bad condition"},
		{"late between", []step{{0, pod(bound(-73), acknowledged(-73), isTrue(-4))}}, "bad condition; recovered condition 1m9s"},
		{"bad after", []step{{0, pod(bound(-20), acknowledged(-20))}}, "bad condition"},
		{"bound between", []step{{0, pod(bound(-3), isTrue(-2))}}, "good condition 1s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := play(t, Config{Handover: time.Unix(-5, 0)}, tc.steps...); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	t.Run("too long ago", func(t *testing.T) {
		if got := play(t, Config{Handover: time.Unix(-61, 0)}, step{0, pod(bound(-65), isTrue(-60))}); got != "excluded left_censored" {
			t.Error(got)
		}
	})
}

// TestSilentSource: what is not heard is not bad, and is judged when it is heard.
func TestSilentSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		pod(bound(0), acknowledged(0))(w)
		time.Sleep(10 * time.Minute)
		w.tracker.Tick(w.second(69))
		if len(w.said) > 0 {
			t.Errorf("heard last a second before the verdict, and it says %v", w.said)
		}
		pod(isTrue(20))(w)
		w.tracker.Tick(time.Now())
		if len(w.said) != 1 || w.said[0] != "good condition 20s" {
			t.Errorf("%v", w.said)
		}
	})
}
