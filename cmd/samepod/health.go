package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/samepod/samepod/identity"
	"github.com/samepod/samepod/identity/sandbox"
	"github.com/samepod/samepod/mtls"
)

// readiness answers /readyz from the thing that knows: the index.
type readiness struct {
	index     *identity.Index
	sandboxes *sandbox.Index // nil for the dialect claim
	tls       *mtls.Keeper   // nil for none
	notes     []string
	serving   atomic.Bool // as Envoy is told, but for draining
	draining  atomic.Bool
	// unhealthyWhenStale tells Envoy to ask another replica while this one is stale.
	unhealthyWhenStale bool
}

// feeds are all that a verdict may read.
func (r *readiness) feeds() []identity.FeedStatus {
	all := r.index.Feeds()
	if r.sandboxes != nil {
		all = append(all, r.sandboxes.Feeds()...)
	}
	return all
}

// report tells Envoy, by serve, whether this replica should be asked, and the log
// when a feed becomes stale and when it is fresh again: the one thing that turns
// every answer at once. It goes on until ctx ends.
func (r *readiness) report(ctx context.Context, log *slog.Logger, serve func(bool)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	stale := map[string]bool{}
	for synced := false; ; {
		var changed <-chan struct{}
		if !synced {
			changed = r.index.Changed()
		}
		anyStale, feeds := false, r.feeds()
		synced = synced || !slices.ContainsFunc(feeds, func(f identity.FeedStatus) bool { return f.Freshness == identity.NotSynced })
		for _, f := range feeds {
			now := f.Freshness == identity.Stale
			switch {
			case now && !stale[f.Name]:
				log.Error("the view is stale; every check is denied", "feed", f.Name, "age", f.Age.String(), "bound", f.Bound.String(), "fault", f.Fault)
			case !now && stale[f.Name]:
				log.Info("the view is fresh again", "feed", f.Name)
			}
			stale[f.Name] = now
			anyStale = anyStale || now
		}
		if should := synced && (!anyStale || !r.unhealthyWhenStale); should != r.serving.Load() {
			r.serving.Store(should)
			serve(should)
			if should {
				log.Info("serving", "pods", r.index.Size().Pods)
			} else {
				log.Warn("not serving while the view is stale; Envoy asks another replica")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// ServeHTTP answers 200 or 503, with the reason in the first line and every feed
// and note below.
func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var lines strings.Builder
	notReady := ""
	for _, f := range r.feeds() {
		state := "[+]"
		if f.Freshness != identity.Fresh {
			state = "[-]"
			if notReady == "" {
				notReady = fmt.Sprintf("%s: %s", f.Name, f.Freshness)
			}
		}
		fmt.Fprintf(&lines, "%s %s: %s", state, f.Name, f.Freshness)
		if f.Freshness != identity.NotSynced {
			fmt.Fprintf(&lines, ", %v old of at most %v", f.Age.Round(time.Millisecond), f.Bound)
		}
		fmt.Fprintf(&lines, " (%s)", f.Proof)
		if f.Fault != "" {
			fmt.Fprintf(&lines, "; fault: %s", f.Fault)
		}
		lines.WriteByte('\n')
	}
	if r.tls != nil {
		line, expired := tlsLine(r.tls.State())
		lines.WriteString(line)
		if expired != "" {
			notReady = "tls: " + expired
		}
	}
	notes := r.notes
	if r.sandboxes != nil && r.sandboxes.PinsInMemory() {
		notes = append(slices.Clip(notes), "pins are in memory: a restart and other replicas forget which Pod a sandbox had")
	}
	for _, note := range notes {
		fmt.Fprintf(&lines, "[!] %s\n", note)
	}
	if r.draining.Load() {
		notReady = "draining"
	}
	w.Header().Set("content-type", "text/plain; charset=utf-8")
	if notReady != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "not ready: %s\n%s", notReady, &lines)
		return
	}
	fmt.Fprintf(w, "ready\n%s", &lines)
}

// tlsLine tells the certificate in force, and since when nobody takes it any more.
func tlsLine(state mtls.State) (line, expired string) {
	mark, text := "[+]", "valid until "+state.NotAfter.UTC().Format(time.RFC3339)
	if expired = state.Expired(time.Now()); expired != "" {
		mark, text = "[-]", expired
	}
	if state.Fault != "" {
		text += "; fault: " + state.Fault
	}
	return fmt.Sprintf("%s tls: %s\n", mark, text), expired
}

func healthHandler(ready http.Handler, reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	return mux
}

func adminHandler(index *identity.Index, withPprof bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /history", func(w http.ResponseWriter, r *http.Request) {
		text := r.URL.Query().Get("address")
		addr, err := identity.ParseAddr(text)
		if err != nil {
			http.Error(w, fmt.Sprintf("address: %q: %v; allowed: /history?address=<ip>", text, err), http.StatusBadRequest)
			return
		}
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(tenures(index.History(addr))) // the reader may be gone
	})
	mux.HandleFunc("GET /shared", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("content-type", "application/json")
		_ = json.NewEncoder(w).Encode(holders(index.Shared())) // the reader may be gone
	})
	if withPprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// holder is a Pod that holds an address, as /shared tells it.
type holder struct {
	Pod string `json:"pod"`
	UID string `json:"uid"`
}

func holders(shared map[netip.Addr][]identity.Holder) map[netip.Addr][]holder {
	all := make(map[netip.Addr][]holder, len(shared))
	for addr, list := range shared {
		for _, h := range list {
			all[addr] = append(all[addr], holder{h.String(), string(h.UID)})
		}
	}
	return all
}

// tenure is one holder of an address, as /history tells it.
type tenure struct {
	Pod  string     `json:"pod"`
	UID  string     `json:"uid"`
	From *time.Time `json:"from,omitempty"` // absent: not known any more
	To   *time.Time `json:"to,omitempty"`   // absent: holds it now
}

func tenures(past []identity.Tenure) []tenure {
	all := make([]tenure, len(past))
	for i, t := range past {
		all[i] = tenure{Pod: t.String(), UID: string(t.UID)}
		if !t.From.IsZero() {
			all[i].From = &past[i].From
		}
		if !t.To.IsZero() {
			all[i].To = &past[i].To
		}
	}
	return all
}
