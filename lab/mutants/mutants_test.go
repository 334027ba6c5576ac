// Package mutants holds the tests to what they claim: each line of its table breaks
// one safety property in the source, and a named test must fail.
package mutants

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutants = []struct {
	breaks   string
	file     string
	old, new string
	run      string // the test of the file's package that must catch it
}{
	{"a terminal Pod holds its address", "identity/pod.go", "return !p.Terminal() && !p.Terminating", "return !p.Terminating", "TestLook$"},
	{"a terminating Pod spoils the address of its successor", "identity/pod.go", "&& !p.Terminating && !p.HostNetwork", "&& !p.HostNetwork", "TestLook$"},
	{"a host-network Pod holds its node's address", "identity/pod.go", "&& !p.Terminating && !p.HostNetwork", "&& !p.Terminating", "TestLook$"},
	{"a late delete removes the new Pod of the name", "identity/feed.go", `&& (uid == "" || e.pod.UID == uid)`, "", "TestLook$"},
	{"a rebuilt Pod leaves its old address behind", "identity/index.go", "if prev != nil {\n\t\tx.forget", "if prev != nil && next.pod == nil {\n\t\tx.forget", "TestLook$"},
	{"an address change leaves the old address behind", "identity/index.go", "if list = slices.Delete(list, i, i+1); len(list) == 0 {", "if len(list) == 0 {", "TestModel$"},
	{"who names an object of another namespace as owner is its Pod", "identity/index.go", "ownerKey{namespace, owner}]", "ownerKey{\"ns\", owner}]", "TestModel$"},
	{"a list adds to what was there", "identity/feed.go", "listed[name] = nil", "_ = ok", "TestLook$"},
	{"a node address is forgotten with the first of its Pods", "identity/index.go", "if x.nodes[addr]--; x.nodes[addr] == 0 {", "if true {", "TestNodeAddresses$"},
	{"nothing gets stale", "identity/word.go", "if s.Age > w.bound {", "if false {", "TestFreshness$"},
	{"what was never listed is believed", "identity/word.go", "if !w.synced {\n\t\treturn s\n\t}", "", "TestFreshness$"},
	{"the freshest feed decides", "identity/word.go", "s.Freshness < other.Freshness ||", "s.Freshness > other.Freshness ||", "TestWorstFeedDecides$"},
	{"an old word renews", "identity/word.go", "if at.After(w.seen) {\n\t\tw.seen = at\n\t}", "w.seen = at", "TestFreshness$"},
	{"a machine that slept believes what it knew", "identity/freshness.go", "max(now.Sub(then), now.Round(0).Sub(then.Round(0)), 0)", "max(now.Sub(then), 0)", "TestAge$"},
	{"a zone is taken in an API object", "identity/addr.go", `if addr.Zone() != "" {`, "if false {", "TestParseAddr$"},
	{"a mapped address is another key", "identity/addr.go", "return addr.Unmap(), nil", "return addr, nil", "TestParseAddr$"},
	{"any text of an address is taken", "identity/addr.go", "case string(ap.AppendTo(canonical[:0])) != s:", "case string(ap.AppendTo(canonical[:0])) == \"\":", "TestParseAddrPort$"},
	{"an object with two truths is believed", "identity/object.go", "p.Malformed = first.Error()", "", "TestObject$"},

	{"a Pod stays with a controller that it lost", "identity/index.go", "if owner := prev.owner(); owner.uid != \"\" {", "if owner := prev.owner(); false {", "TestModel$"},
	{"a dead Pod counts as a second one", "identity/index.go", "if alive {\n\t\t\tlive++\n\t\t}", "live++", "TestModel$"},
	{"a change wakes nobody", "identity/feed.go", "func (f *Feed) Apply(pod Pod, at time.Time) {\n\tx := f.index\n\tdefer x.Ring() // after the lock\n", "func (f *Feed) Apply(pod Pod, at time.Time) {\n\tx := f.index\n", "TestBell$"},
	{"every controller is remembered", "identity/object.go", "if slices.Contains(keep.Owners, o.Owner.Kind) {", "if !slices.Contains([]string{}, o.Owner.Kind) {", "TestObject$"},

	{"a Pod in a warm pool is let through", "identity/agentsandbox/refuse.go", "pod.Marks[warmPoolLabel]; waits {", "pod.Marks[warmPoolLabel]; false && waits {", "TestCases$"},
	{"a Sandbox in a warm pool is somebody's", "identity/agentsandbox/object.go", "s.Unassigned = waits(o)", "_ = waits", "TestCases$"},
	{"a label takes another's name", "identity/agentsandbox/object.go", "\ts.Unassigned = waits(o)\n", "\ts.Unassigned = waits(o)\n\ts.Names = []string{sandbox.Field[string](o, \"metadata\", \"labels\", \"opensandbox.io/id\")}\n", "TestCases$"},
	{"a suspended Sandbox passes", "identity/agentsandbox/object.go", "return mode == \"Suspended\" || stopped", "return stopped", "TestCases$"},
	{"replicas 0 is no suspension", "identity/agentsandbox/object.go", "return mode == \"Suspended\" || stopped", "return mode == \"Suspended\" || false && stopped", "TestCases$"},
	{"what has ended goes on", "identity/agentsandbox/object.go", "s.Ended = sandbox.Field[string](c, \"status\") == \"True\"", "", "TestCases$"},
	{"a Sandbox lives for ever", "identity/agentsandbox/object.go", "s.Expires = o.Time(\"spec\", \"shutdownTime\")", "", "TestCases$"},
	{"what cannot be read is understood", "identity/agentsandbox/object.go", "s.Malformed = o.Fault()", "", "TestMalformed$"},
	{"the Pod gets the path with the route in it", "identity/agentsandbox/refuse.go", "return identity.Bound, c.Path", "return identity.Bound, \"\"", "TestCases$"},
	{"the hint is dialled", "identity/agentsandbox/route.go", "c.Port = r.DefaultPort\n\t}", "c.Port = r.DefaultPort\n\t}\n\tc.Recorded, _ = identity.ParseAddrPort(c.Hint.String() + \":8888\")", "TestClaim$"},
	{"the default port is taken for a malformed one", "identity/agentsandbox/route.go", "c.Port, err = identity.ParsePort(text)\n\t\treturn err", "c.Port, _ = identity.ParsePort(text)\n\t\treturn nil", "TestBadClaims$"},
	{"header and path may name two Sandboxes", "identity/agentsandbox/route.go", "case c.Sandbox != \"\" && c.Sandbox != p.Sandbox:", "case false:", "TestBadClaims$"},

	{"the first of two sandboxes is meant", "identity/sandbox/target.go", "return nil, identity.SandboxAmbiguous", "return found, identity.Bound", "TestTarget$"},
	{"sandboxes out of scope are named", "identity/sandbox/target.go", "case !inScope(s.Namespace), c.Namespace", "case c.Namespace", "TestTarget$"},
	{"another sandbox of the name will do", "identity/sandbox/target.go", "case c.SandboxUID != \"\" && c.SandboxUID != s.UID:", "case false:", "TestTargetClaims$"},
	{"access is not asked for", "identity/sandbox/target.go", "case state != identity.Bound:", "case false:", "TestTarget$"},
	{"an expired sandbox lives", "identity/sandbox/sandbox.go", "|| !s.Expires.IsZero() && !now.Before(s.Expires)", "", "TestTarget$"},
	{"a suspended sandbox is reached", "identity/sandbox/target.go", "case s.Suspended:", "case false:", "TestTarget$"},
	{"a sandbox that comes back is reached before its Pod runs", "identity/sandbox/target.go", "&& !runs(&t.View) {", "&& false {", "TestTarget$"},
	{"a renewal suspends", "identity/opensandbox/object.go", "s.Resuming, s.Suspended = true, asked", "s.Suspended = true", "TestDecode$"},
	{"one of two Pods is meant", "identity/sandbox/target.go", "case live > 1:", "case live < 0:", "TestTarget$"},
	{"two sandboxes share a Pod", "identity/sandbox/target.go", "if other.UID != s.UID {", "if false {", "TestTarget$"},
	{"a deleted sandbox keeps its Pod", "identity/sandbox/index.go", "if s.Pool == \"\" || s.Deleting {", "if s.Pool == \"\" {", "TestTarget$"},
	{"any Pool's Pod will do", "identity/sandbox/target.go", "owner.Kind != x.engine.PoolKind || owner.Name != s.Pool", "owner.Kind != x.engine.PoolKind", "TestTarget$"},
	{"a Pool that is not known leaves a trace", "identity/sandbox/target.go", "] != RecycleDelete", "] == RecycleNoop", "TestReread$"},
	{"the engine's objects are of any age", "identity/sandbox/target.go", "w.Worse(pods)", "pods.Worse(w)", "TestFreshness$"},
	{"what is published is not compared", "identity/sandbox/target.go", "if !x.engine.Assert {", "if true {", "TestAssert$"},
	{"an audit calls a Pod own that two sandboxes claim", "identity/sandbox/audit.go", "if !owns || x.claimed(s, &p) {", "if !owns {", "TestAudit$"},
	{"an audit takes another namespace's Pod for its own", "identity/sandbox/audit.go", "if p.Namespace != s.Namespace {", "if false {", "TestAudit$"},
	{"a lost Pod is still to come", "identity/sandbox/target.go", "case !t.View.Found && !x.lost(s):", "case !t.View.Found:", "TestNoPod$"},
	{"a copied pin is believed", "identity/sandbox/pin.go", "case p.Sandbox != s.UID:", "case false:", "TestPinStates$"},
	{"a rebuilt Pod is the pinned one", "identity/sandbox/pin.go", "case p.Pod != pod.UID, s.Generation", "case s.Generation", "TestPinStates$"},
	{"a pin without a MAC passes", "identity/sandbox/pin.go", "case !signed && len(key) > 0:", "case false:", "TestParsePin$"},
	{"a wrong MAC passes", "identity/sandbox/pin.go", "case !hmac.Equal([]byte(p.Text(key)), []byte(text)):", "case false:", "TestParsePin$"},
	{"a late read undoes what was watched", "identity/sandbox/confirm.go", "known.UID == s.UID && later(known.Version, s.Version)", "false", "TestConfirm$"},
	{"a sandbox that lost its name is still meant", "identity/sandbox/confirm.go", "!slices.Contains(s.callable(), c.Sandbox)", "false", "TestConfirm$"},
	{"versions are texts", "identity/sandbox/confirm.go", "if len(a) != len(b) {\n\t\treturn len(a) > len(b)\n\t}", "", "TestConfirm$"},
	{"a Pod is pinned that is another by now", "identity/sandbox/confirm.go", "case !found || pod.UID != uid ||", "case !found || uid == \"\" ||", "TestPinning$"},
	{"a Pod is pinned that never ran", "identity/sandbox/confirm.go", "case pod.Phase != identity.PhaseRunning:", "case false:", "TestPinning$"},
	{"a pin that was not written holds", "identity/sandbox/confirm.go", "case !errors.Is(err, ErrForbidden), policy.Required:", "case false:", "TestConfirmFails$"},
	{"a pin in memory is never in the place of the object's", "identity/sandbox/memory.go", "ok && k.instead == s.Pin &&", "ok && s.Pin == (Pin{}) &&", "TestPinsInMemoryInstead$"},
	{"the slower check's pin stays", "identity/sandbox/memory.go", "if !wanted(m.of(s)) {", "if false {", "TestPinInMemoryRace$"},
	{"anybody can make the API server busy", "identity/sandbox/confirm.go", "if !x.finds.Allow() || ", "if ", "TestBusy$"},
	{"made up names keep others from the API server", "identity/sandbox/confirm.go", "!x.enter(mostReads/2)", "!x.enter(mostReads)", "TestMadeUpNames$"},
	{"a check is answered by a read of before", "identity/sandbox/shared.go", "\tdelete(s.open, key)\n\ts.running", "\ts.running", "TestSharedReads$"},
	{"one sandbox's callers keep others from the API server", "identity/sandbox/shared.go", "if a == nil {", "if true {", "TestSharedReads$"},
	{"who comes joins what is given up", "identity/sandbox/shared.go", "if s.open[key] == a {\n\t\tdelete(s.open, key)", "if false {\n\t\tdelete(s.open, key)", "TestSharedReadsEnd$"},

	{"a Pool's Pod that a pause left behind is believed", "identity/opensandbox/allocation.go", "case \"\":\n\t\treturn\n", "case \"none\":\n\t\treturn\n", "TestDecode$"},
	{"a Pod that was released counts", "identity/opensandbox/allocation.go", "case gone[pod],", "case gone[\"\"],", "TestDecode$"},
	{"a Pod that is asked back counts", "identity/opensandbox/allocation.go", "slices.Concat(pods(o, s.Namespace, annotationRelease).Pods, pods", "slices.Concat(pods", "TestDecode$"},
	{"the Pods of the Pool before count", "identity/opensandbox/allocation.go", "given.PoolRef != \"\" && given.PoolRef != s.Pool:", "false:", "TestDecode$"},
	{"a broken allocation is none", "identity/opensandbox/allocation.go", "o.Note(err, text, path...)", "_ = err", "TestDecode$"},
	{"a renewal is a resume", "identity/opensandbox/object.go", "resumed(o, s.Name)", "o.Integer(\"status\", \"pauseObservedGeneration\")", "TestDecode$"},
	{"any snapshot is a resume", "identity/opensandbox/resumed.go", "repository != name+\"-\"+containerName", "repository+containerName == \"\"", "TestDecode$"},
	{"a pause that was asked for is not seen", "identity/opensandbox/object.go", "\"pause\") && !seen", "\"pause\") && seen", "TestDecode$"},
	{"a Pool that recycles without a trace deletes", "identity/opensandbox/pool.go", "p.Recycle = sandbox.RecycleNoop", "p.Recycle = sandbox.RecycleDelete", "TestDecodePool$"},
	{"the record of its own restart is ignored", "identity/opensandbox/refuse.go", "case record.ID == s.Name:", "case false:", "TestRefuse$"},
	{"another Pool's Pod is its own", "identity/opensandbox/refuse.go", "ok && pool != s.Pool", "ok && pool != pool", "TestRefuse$"},
	{"a signature in Host reaches the Pod", "identity/opensandbox/route.go", "c.HidesHost = true //", "//", "TestHeaderRoutes$"},
	{"the old header comes first", "identity/opensandbox/route.go", "{RouteHeader, OldRouteHeader}", "{OldRouteHeader, RouteHeader}", "TestHeaderRoutes$"},
	{"a route is split from the left", "identity/opensandbox/route.go", "strings.LastIndexByte(s, '-')", "strings.IndexByte(s, '-')", "TestHeaderRoutes$"},
	{"a path may climb", "identity/opensandbox/path.go", "if segment == \".\" || segment == \"..\" {", "if segment == \"?\" {", "TestURIRoutes$"},
	{"a path may hide its syntax", "identity/opensandbox/path.go", "case c == '%' && encodesSyntax(path[i+1:]):", "case c == '%' && false:", "TestURIRoutes$"},
	{"a wrong token falls back to the signature", "identity/opensandbox/access.go", "[]byte(s.Token)) != 1 {", "[]byte(s.Token)) != 1 && !k.signed(c) {", "TestAccess$"},
	{"a signature that is over passes", "identity/opensandbox/access.go", "uint64(now) <= expires", "expires > 0", "TestSignedRoutes$"},
	{"a signature is for any sandbox", "identity/opensandbox/access.go", "c.Sandbox, c.Port, a.Expires)", "\"a\", c.Port, a.Expires)", "TestAccess$"},
	{"a path is stripped of what is no signature", "identity/opensandbox/access.go", "return identity.Bound, c.Path\n\t}\n\tif", "return identity.Bound, c.Access.Path\n\t}\n\tif", "TestAccess$"},
	{"keys are printed", "identity/opensandbox/keys.go", "func (Keys) Format(", "func (Keys) format(", "TestKeysAreSecret$"},

	{"another uid is the same Pod", "authz/verdict.go", "case c.Sandbox == \"\" && !c.AnyUID && pod.UID != c.UID, t.Pin", "case t.Pin", "TestDecide$"},
	{"two holders are one", "authz/verdict.go", "case v.Others > 0:", "case false:", "TestDecide$"},
	{"an address that the Pod lost is dialled", "authz/verdict.go", "case !v.Holds:", "case false:", "TestDecide$"},
	{"a dead Pod is dialled", "authz/verdict.go", "case pod.Terminal():", "case false:", "TestDecide$"},
	{"a dying Pod is dialled", "authz/verdict.go", "case pod.Terminating:", "case false:", "TestDecide$"},
	{"a Pod of the host network is dialled", "authz/verdict.go", "case pod.HostNetwork, pod.Mirror,", "case pod.Mirror,", "TestDecide$"},
	{"a mirror Pod is dialled", "authz/verdict.go", "case pod.HostNetwork, pod.Mirror,", "case pod.HostNetwork,", "TestDecide$"},
	{"a Pod that never ran is dialled", "authz/verdict.go", "case pod.Phase != identity.PhaseRunning,", "case", "TestDecide$"},
	{"a stale view allows", "authz/verdict.go", "case v.Freshness != identity.Fresh:", "case false:", "TestDecideFreshness$"},
	{"the scope is open", "authz/verdict.go", "case !p.Scope.Contains(namespace(c, t)):", "case false:", "TestDecide$"},
	{"the selector is ignored", "authz/verdict.go", "case v.Found && !v.Pod.Selected:", "case false:", "TestDecide$"},
	{"every port is open", "authz/verdict.go", "case !p.Ports.Contains(c.Port):", "case false:", "TestDecide$"},
	{"every address is open", "authz/verdict.go", "case p.Addresses.refuses(v.Addr, v.Node) != \"\":", "case false:", "TestDecide$"},
	{"what the token says is ignored", "authz/verdict.go", "case !c.Authorized:", "case false:", "TestDecide$"},
	{"a sandbox is unknown because it was not watched", "authz/verdict.go", "return Verdict{Reason: UnknownSandbox, confirm: !t.Live}", "return Verdict{Reason: UnknownSandbox}", "TestDecideSandbox$"},
	{"a Pod that was handed on is dialled", "authz/verdict.go", "case t.Pin == identity.PinWanted, t.Reread && !t.Live:", "case t.Pin == identity.PinWanted:", "TestDecideSandbox$"},
	{"an allow before the pin", "authz/verdict.go", "case t.Pin == identity.PinWanted, t.Reread && !t.Live:", "case t.Reread && !t.Live:", "TestDecideSandbox$"},
	{"another Pod than was pinned is dialled", "authz/verdict.go", ", t.Pin == identity.PinBroken:", ":", "TestDecideSandbox$"},
	{"a forged pin is ignored", "authz/verdict.go", "case t.Pin == identity.PinRefused:", "case false:", "TestDecideSandbox$"},
	{"a Pod that was taken away is dialled", "authz/verdict.go", "case identity.Releasing:\n\t\treturn PodGone", "case identity.Releasing:\n\t\treturn SamePod", "TestDecideSandbox$"},
	{"no answer of the API server is a yes", "authz/server.go", "if err != nil {\n\t\td.verdict, d.fault = deny(Overloaded), err\n\t\treturn\n\t}", "_ = err", "TestConfirm$"},
	{"a check waits longer than Envoy", "authz/wait.go", "deadline.Add(-beforeEnvoy).Before(until)", "false", "TestWait$"},
	{"a token of another sandbox will do", "authz/route.go", "err == nil && present && name != \"\" && name == named(c)", "err == nil && present && name != \"\"", "TestRoute$"},
	{"a token's sandbox is meant in every namespace", "authz/route.go", "name == named(c)", "name == c.Sandbox", "TestRoute$"},
	{"0.0.0.0/0 opens the metadata service", "authz/addresses.go", "p.Contains(addr) && p.Bits() >= closed.Bits() && closed.Contains(p.Addr())", "p.Contains(addr)", "TestAddresses$"},
	{"the last of two headers wins", "authz/request.go", `if n > 1 || strings.Contains(value, ",") {`, `if strings.Contains(value, ",") {`, "TestClaim$"},
	{"a joined header is one", "authz/request.go", `if n > 1 || strings.Contains(value, ",") {`, "if n > 1 {", "TestClaim$"},
	{"a missing uid is optional", "authz/claim.go", "m.UID, !m.UIDOptional,", "m.UID, false,", "TestClaim$"},
	{"a denial allows", "authz/response.go", "Status: &rpcstatus.Status{Code: denialCode(v.Reason.Status()), Message: word},", "Status: &rpcstatus.Status{Message: word},", "TestDenials$"},
	{"a denial has no status, which allows", "authz/response.go", "Status: &rpcstatus.Status{Code: denialCode(v.Reason.Status()), Message: word},", "", "TestDenials$"},
	{"a denial can be dialled", "authz/response.go", "DecisionKey: structpb.NewStringValue(decision),\n\t\t}},\n\t}\n}\n\n// denialCode", "DecisionKey: structpb.NewStringValue(decision), UpstreamKey: structpb.NewStringValue(v.Upstream.String()),\n\t\t}},\n\t}\n}\n\n// denialCode", "TestDenials$"},
	{"an allow without a uid", "authz/response.go", `v.Upstream.IsValid() && v.UID != "":`, "v.Upstream.IsValid():", "TestContradictoryVerdictsDeny$"},
	{"a client's header is appended to", "authz/response.go", "Append:       wrapperspb.Bool(false),", "Append:       wrapperspb.Bool(true),", "TestAllow$"},
	{"bytes that do not unmarshal are a gRPC error", "authz/codec.go", "proto.Reset(req)", "proto.Reset(req)\n\tif err != nil {\n\t\treturn err\n\t}", "TestUndecodable$"},
	{"a panic ends the process", "authz/server.go", "if p := recover(); p != nil {", "if p := any(nil); p != nil {", "TestNeverAnError$"},

	{"the first list may be of any age", "identity/kube/watch.go", `options.ResourceVersion = ""`, "_ = options", "TestOrdinaryList$"},
	{"a list brings back what is gone", "identity/kube/store.go", "case order < 0:", "case order < -1:", "TestNoTimeTravel$"},
	{"what is no Pod is passed over", "identity/kube/guard.go", "return fmt.Errorf(\"watch: a %s event of what is no %s: %T\", event.Type, kind.name, event.Object)", "return nil", "TestNonsenseEvents$"},
	{"a silent watch is trusted", "identity/kube/guard.go", "case identity.Age(g.spoken, now) > g.silence:", "case false:", "TestSilentWatch$"},
	{"a bookmark proves nothing", "identity/kube/store.go", "s.feed.Renew(*s.heard.Load())", "", "TestQuietCluster$"},
	{"a bookmark proves what was true when it is processed", "identity/kube/store.go", "s.feed.Renew(*s.heard.Load())", "s.feed.Renew(time.Now())", "TestHeard$"},
	{"a bookmark may go back", "identity/kube/guard.go", "if err != nil || order < 0 {", "if err != nil || order < -1 {", "TestBookmarks$"},
	{"a process that stood still believes what it hears", "identity/kube/guard.go", "case stood > standstill:", "case false:", "TestStandstill$"},
	{"a streaming list that breaks off is asked for again at once", "identity/kube/guard.go", "if g.initial {\n\t\t\treturn errors.New", "if false {\n\t\t\treturn errors.New", "TestStreamingListThatBreaksOff$"},
	{"a streaming list may go on for ever", "identity/kube/guard.go", "case g.initial && now.After(g.ends):", "case false:", "TestStreamingListThatBreaksOff$"},
	{"a refused watch lives on", "identity/kube/watch.go", "w.current.Stop()", "", "TestRefusedStreamEnds$"},
	{"a slow list is never watched on from", "identity/kube/store.go", "s.listed = true", "", "TestSlowList$"},
	{"whatever decodes is a list", "identity/kube/store.go", "if !named {", "if object == nil && !named {", "TestListsThatAreNone$"},
	{"a missing CRD blocks", "identity/kube/watch.go", "w.store.none()", "", "TestMissingCRD$"},
	{"a 403 is a missing CRD", "identity/kube/resource.go", "if !apierrors.IsNotFound(err) ||", "if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) ||", "TestMissingCRD$"},
	{"a proxy's 404 is a missing CRD", "identity/kube/resource.go", "case failed != nil:", "case false:", "TestMissingCRD$"},
	{"a kind in a version that nobody reads is a missing CRD", "identity/kube/resource.go", "case len(served) == 0:", "case true:", "TestMissingCRD$"},
	{"a list of anything is one of an engine's objects", "identity/kube/resource.go", "gvk.Group != r.Group || gvk.Kind != r.Kind+\"List\"", "false", "TestListsOfSomethingElse$"},
	{"any object is an engine's", "identity/kube/resource.go", "u.GroupVersionKind().GroupKind() == schema.GroupKind{Group: r.Group, Kind: r.Kind}", "true", "TestListsOfSomethingElse$"},
	{"a sandbox is read from a cache", "identity/kube/live.go", "Get(ctx, name.Name, metav1.GetOptions{})\n\t})", "Get(ctx, name.Name, metav1.GetOptions{ResourceVersion: \"0\"})\n\t})", "TestLiveRequests$"},
	{"a Pod is read from a cache", "identity/kube/live.go", "Get(ctx, name.Name, metav1.GetOptions{})\n\t\tif", "Get(ctx, name.Name, metav1.GetOptions{ResourceVersion: \"0\"})\n\t\tif", "TestLiveRequests$"},
	{"every namespace is asked for every name that is made up", "identity/kube/find.go", "if !l.budget.AllowN(", "if false && !l.budget.AllowN(", "TestFindBudget$"},
	{"sandboxes are found in a cache", "identity/kube/find.go", "options.Limit = mostFound", "options.Limit, options.ResourceVersion = mostFound, \"0\"", "TestLiveRequests$"},
	{"a pin is for any version", "identity/kube/live.go", "\"uid\": s.UID, \"resourceVersion\": s.Version,", "\"uid\": s.UID,", "TestLiveRequests$"},
	{"a pin is for any object of the name", "identity/kube/live.go", "\"uid\": s.UID, \"resourceVersion\": s.Version,", "\"resourceVersion\": s.Version,", "TestLiveRequests$"},
	{"whoever names a namespace widens the scope", "identity/kube/find.go", "case c.Namespace != \"\" && !slices.Contains(namespaces, c.Namespace):", "case false:", "TestLiveRequests$"},
	{"a conflict is any error", "identity/kube/live.go", "case apierrors.IsConflict(err):", "case false:", "TestLiveAnswers$"},
	{"a silent connection is asked again", "identity/kube/live.go", "\t\tl.closeConnections()", "", "TestLiveCall$"},
	{"whoever gives up costs the others their connections", "identity/kube/live.go", "now.Sub(began) >= patience && l", "l", "TestLiveCall$"},
	{"half a file is a file", "identity/podsfile/parse.go", "case err != nil:\n\t\t\treturn nil, yamlError(err)", "case err != nil:\n\t\t\treturn r.pods, nil", "TestParse$"},
	{"an empty file is a world without Pods", "identity/podsfile/parse.go", "case errors.Is(err, io.EOF) && !found:", "case found && false:", "TestParse$"},
	{"an edit that keeps its time stamp is missed", "identity/podsfile/source.go", "s.Size, s.Mtim.Nano(), s.Ctim.Nano()}", "s.Size, s.Mtim.Nano(), 0}", "TestHiddenEdits$"},
	{"a file may be of any size", "identity/podsfile/source.go", "case s.Size > mostBytes:", "case false:", "TestNoRegularFile$"},
	{"a broken file renews", "identity/podsfile/source.go", "pods, err := Parse(data, s.Keep)\n", "pods, err := Parse(data, s.Keep)\n\t\ts.Feed.Renew(asOf)\n", "TestBrokenEdit$"},

	{"a request may wait for a connection", "envoy/envoy.yaml.tmpl", "priority: HIGH, max_retries: 0, max_connections: 4294967295", "priority: HIGH, max_retries: 0, max_connections: 1024", "TestHazards$"},
	{"samepod may set the path where no path is read", "envoy/render.go", "if v.SetsPath {", "if true {", "TestGolden$"},
	{"samepod may not hide a host", "envoy/render.go", "if v.SetsHost {", "if false {", "TestGolden$"},
	{"what a gateway takes away reaches the Pod", "envoy/render.go", "slices.Concat(v.ClaimHeaders, v.PrivateHeaders)", "slices.Clone(v.ClaimHeaders)", "TestGolden$"},
	{"a path is read that Envoy leaves as it came", "envoy/validate.go", "case p.SetsPath && !p.PathHardening:", "case false:", "TestBadParams$"},
	{"any path may be read", "envoy/hazard/rules_header.go", "if !s.params.SetsPath {", "if true {", "TestDialects$"},
	{"an audit of a cluster without engines is a clean bill", "cmd/samepod/audit.go", "if len(sandboxes.All()) == 0 {", "if false {", "TestAuditOfNothing$"},
	{"a signed route reaches the Pod in a header", "cmd/samepod/dialect.go", "opensandbox.OldRouteHeader, ", "", "TestScript/envoy$"},
	{"a host that is hidden reaches the Pod", "authz/response.go", "if v.OwnHost {", "if false {", "TestAllow$"},
	{"no claim hides its host", "authz/verdict.go", ", OwnHost: c.HidesHost}", "}", "TestOwnHost$"},
	{"a configuration that protects nothing is safe", "envoy/hazard/rules_check.go", "func nothingProtected(s *subject, found report) {", "func nothingProtected(s *subject, found report) {\n\treturn", "TestNothingProtected$"},
	{"the first listener is all", "envoy/hazard/reach.go", "for _, l := range s.listeners {", "for _, l := range s.listeners[:min(1, len(s.listeners))] {", "TestRules$"},
	{"the default filter chain is not read", "envoy/hazard/reach.go", "c := l.is.GetDefaultFilterChain(); c != nil {", "c := l.is.GetDefaultFilterChain(); false {", "TestRules$"},
	{"upgrades have no chain of their own", "envoy/hazard/reach.go", "if len(u.GetFilters()) > 0 {", "if false {", "TestRules$"},
	{"bytes are no requests", "envoy/hazard/reach.go", "direct := s.isProtected(m.GetCluster())", "direct := false", "TestRules$"},
	{"a cluster of clusters leads nowhere", "envoy/hazard/rendering.go", "if !s.isProtected(c.is.GetName()) && s.namesProtected(c.is.GetClusterType().GetTypedConfig()) {", "if false {", "TestRules$"},
	{"a cache asks samepod", "envoy/hazard/rules_sender.go", "if f.in(fetches) && slices", "if false && slices", "TestRules$"},
	{"any certificate is a Pod's", "envoy/hazard/rules_tls.go", "if !authority && !pinned {", "if !authority && false {", "TestRules$"},
	{"a name that is not copied is asked for", "envoy/hazard/rules_tls.go", "\t\tcase i < 0:\n\t\t\tfound(chain.place", "\t\tcase false:\n\t\t\tfound(chain.place", "TestTLS$"},
	{"plaintext to samepod stays on the machine", "envoy/hazard/rules_tls.go", "a.GetPipe() == nil && host", "false && host", "TestTLS$"},
	{"a filter cleans where it is switched off", "envoy/hazard/rules_header.go", "_, off := f.disabledOn(r); !ok || off {", "_, off := f.disabledOn(r); !ok || off && false {", "TestCleaning$"},
	{"what is added again is removed", "envoy/hazard/rules_header.go", "\t\t\tgone = false\n", "\t\t\tgone = true\n", "TestRules$"},
	{"samepod answers callers", "envoy/hazard/rules_sender.go", "if authz[r.cluster] {", "if false {", "TestRules$"},
	{"an ignored key is obeyed", "envoy/hazard/read.go", "\tdropIgnored(&document)\n", "", "TestIgnored$"},
	{"a header names no protected cluster", "envoy/hazard/routes.go", "default: // a header, a plugin: any cluster\n\t\tway.protected = true", "default:", "TestRules$"},
	{"a filter that nobody knows is harmless", "envoy/hazard/rules_check.go", "if f.is != nil && !f.in(harmlessHTTP) &&", "if false && !f.in(harmlessHTTP) &&", "TestRules$"},
	{"routes that are elsewhere are safe", "envoy/hazard/routes.go", "s.gaps = append(s.gaps, gapf(at, \"the routes %q are elsewhere\", name))", "_ = at", "TestRules$"},
	{"a virtual host switches nothing off", "envoy/hazard/filter.go", "at, off = l.item(\"typed_per_filter_config\", f.name, 0).field(\"disabled\"), true", "_ = p", "TestRules$"},
	{"any condition asserts", "envoy/hazard/rules_cluster.go", "!proto.Equal(p.GetCondition(), s.want.assertion.GetCondition())", "false", "TestRules$"},
	{"any copy is the rendered one", "envoy/hazard/rendering.go", "return proto.Equal(got, want)", "return true", "TestRules$"},
	{"a later writer is nobody", "envoy/hazard/rules_chain.go", "found(at, \"writes %s beside samepod's copy\", key)", "_ = at", "TestRules$"},
	{"a TypedStruct hides its type", "envoy/hazard/read.go", "if isAny && (url == typedStruct || url == oldTypedStruct) {", "if false {", "TestFormsOfTheSame$"},
	{"yes is a word", "envoy/hazard/read.go", "case \"y\", \"yes\", \"on\":", "case \"yes.\":", "TestPlainWords$"},
	{"a hazard exits 0", "cmd/samepod/check.go", "if n := r.Count(hazard.Hazard); n > 0 {", "if n := r.Count(hazard.Hazard); n < 0 {", "TestScript/check$"},
	{"a redirect of the admin interface is followed", "cmd/samepod/check.go", "return http.ErrUseLastResponse", "return nil", "TestScript/check$"},
	{"a cluster's name writes CEL", "envoy/validate.go", "!clusterName.MatchString(p.Cluster) ||", "", "TestBadParams$"},
	{"a number is a string", "cmd/samepod/strict.go", "if n.Kind != yaml.ScalarNode || n.Tag != \"!!str\" {\n\t\t\treturn d.errorf(n, path, \"%s; allowed: a string\"", "if n.Kind != yaml.ScalarNode {\n\t\t\treturn d.errorf(n, path, \"%s; allowed: a string\"", "TestBadConfig$"},
	{"an empty selector selects all", "cmd/samepod/config.go", "if len(c.MatchLabels) == 0 && len(c.MatchExpressions) == 0 {", "if false {", "TestBadConfig$"},
	{"anyone may listen without TLS", "cmd/samepod/listen.go", "if err == nil && !local {\n\t\terr = secured.expose", "if err == nil && !local && false {\n\t\terr = secured.expose", "TestListen$"},
	{"a port without TLS needs no flag", "cmd/samepod/tls.go", "case !f.enabled() && !f.insecure:", "case false:", "TestListen$"},
	{"TLS is enough, whoever asks", "cmd/samepod/tls.go", "case f.enabled() && f.clientCA == \"\" && !f.anyClient:", "case false:", "TestListen$"},
	{"a list of clients without a CA is believed to be one", "cmd/samepod/tls.go", "case f.clientCA == \"\" && len(f.identities) > 0:", "case false:", "TestScript/serve-errors$"},
	{"no list of clients is every client", "cmd/samepod/tls.go", "case f.clientCA != \"\" && len(f.identities) == 0:", "case false:", "TestScript/serve-errors$"},
	{"the service serves without its certificate", "cmd/samepod/serve.go", "endpoint.Credentials = keeper.Credentials()", "", "TestServeTLS$"},
	{"a connection lives for ever", "cmd/samepod/serve.go", ", ConnectionAge: f.maxAge, Wait", ", Wait", "TestConnectionAge$"},
	{"Envoy goes on asking a replica that is stale", "cmd/samepod/health.go", "should := synced && (!anyStale || !r.unhealthyWhenStale)", "should := synced", "TestUnhealthyWhenStale$"},
	{"any number of connections", "cmd/samepod/listen.go", "mostProven: f.maxConns}", "mostProven: 1 << 20}", "TestMaxConnections$"},
	{"silent connections have the places of others", "cmd/samepod/bound.go", "if l.unproven.Len() <= l.mostUnproven {", "if true {", "TestHTTPConnections$"},
	{"the newest goes for a silent one", "cmd/samepod/bound.go", "l.unproven.Front()", "l.unproven.Back()", "TestOldestGoes$"},
	{"a silent HTTP connection is kept", "cmd/samepod/serve.go", "IdleTimeout: httpTimeout", "IdleTimeout: time.Hour", "TestHTTPTimeouts$"},
	{"who reads slowly is waited for", "cmd/samepod/serve.go", "WriteTimeout: answer,", "WriteTimeout: time.Hour,", "TestHTTPTimeouts$"},
	{"an expired certificate is ready", "cmd/samepod/health.go", "notReady = \"tls: \" + expired", "_ = notReady", "TestServeTLS$"},

	{"no client needs a certificate", "mtls/files.go", "tls.RequireAndVerifyClientCert", "tls.VerifyClientCertIfGiven", "TestClients$"},
	{"any certificate will do", "mtls/files.go", "tls.RequireAndVerifyClientCert", "tls.RequireAnyClientCert", "TestClients$"},
	{"any name will do", "mtls/files.go", "return clients.admit(s.VerifiedChains[0][0])", "return nil", "TestClients$"},
	{"the common name is a name", "mtls/identity.go", "case i.any:", "case i.any, isListed(cert.Subject.CommonName):", "TestClients$"},
	{"one of two SPIFFE IDs will do", "mtls/identity.go", "case len(cert.URIs) == 1 &&", "case len(cert.URIs) > 0 &&", "TestClients$"},
	{"a DNS name is a SPIFFE ID", "mtls/identity.go", "slices.Contains(i.dnsNames, strings.ToLower(name))", "slices.Contains(append(i.spiffeIDs, i.dnsNames...), strings.ToLower(name))", "TestClients$"},
	{"a URI is a DNS name", "mtls/identity.go", "slices.Contains(i.spiffeIDs, cert", "slices.Contains(append(i.dnsNames, i.spiffeIDs...), cert", "TestClients$"},
	{"an identity may be a pattern", "mtls/identity.go", "case isDNS:", "case isDNS, true:", "TestParseIdentities$"},
	{"an old version of TLS will do", "mtls/files.go", "MinVersion:   tls.VersionTLS13,", "MinVersion: tls.VersionTLS12,", "TestClients$"},
	{"half of a list of CAs is a list", "mtls/files.go", "case bytes.Count(text, []byte(\"-----BEGIN CERTIFICATE-----\")) != len(all):", "case false:", "TestReload$"},
	{"a leaf is a CA", "mtls/files.go", "if !ca.IsCA ||", "if false ||", "TestReload$"},
	{"a CA that expired is one", "mtls/files.go", "if !valid {", "if false {", "TestReload$"},
	{"a name that no certificate has is asked for", "envoy/transport.go", "!isDNSName(name)", "!dnsName.MatchString(name)", "TestBadParams$"},
	{"an expired certificate comes into force", "mtls/files.go", "case now.After(leaf.NotAfter):", "case false:", "TestReload$"},
	{"a broken file ends what was good", "mtls/keeper.go", "\tif err != nil {\n\t\tk.fault = err.Error()", "\tif err != nil {\n\t\tk.config.Store(&tls.Config{})\n\t\tk.fault = err.Error()", "TestReload$"},
	{"one client may open any number of streams", "authz/grpc.go", "grpc.MaxConcurrentStreams(mostStreams),", "", "TestHostileConnections$"},
	{"one client may hold as much as it sends", "authz/grpc.go", "mostRequest     = 128 << 10", "mostRequest     = 1 << 20", "TestUnfinishedMessages$"},
	{"a message that never ends is waited for", "authz/grpc.go", "grpc.InTapHandle(e.bound(callTimeout + c.Wait)),", "", "TestUnfinishedMessages$"},
	{"a silent connection is kept", "authz/grpc.go", "grpc.ConnectionTimeout(handshakeTimeout),", "", "TestHostileConnections$"},
	{"whoever has a certificate of the CA may answer for samepod", "envoy/transport.go", "case ca != \"\" && name == \"\" && !named:", "case false:", "TestBadParams$"},
	{"whoever has the address by then has the certificate", "envoy/transport.go", "s.SANType, s.Match, s.SAN = \"URI\", \"prefix\", t.PodUIDPrefix", "_ = t", "TestGolden$"},
	{"trailers are no headers", "envoy/hazard/rules_header.go", "return removes(request, \"x-samepod-pod-uid\")", "return true || removes(request, \"x-samepod-pod-uid\")", "TestRules$"},
	{"a container of the sandbox before is evidence for the next", "creation/sandbox.go", "if s.generation > 1 && by != ByCondition {", "if false {", "TestGenerations$"},
	{"the end of a Pod is a sandbox that died", "creation/tracker.go", "if s.generation > 1 && (s.pod.Terminal || !s.pod.Deleted.IsZero()) {", "if false {", "TestGenerations$"},
	{"one sandbox that was made again is two", "creation/sandbox.go", "case moved && s.sinceOwn, other && s.ipOwn:", "case moved, other:", "TestGenerations$"},
	{"late is good", "creation/sandbox.go", "if took > t.config.Deadline {", "if false {", "TestOutcomes$"},
	{"the node's address is a sandbox", "creation/fact.go", "case p.IP.IsValid() && !p.HostNetwork:", "case p.IP.IsValid():", "TestOutcomes$"},
	{"a silent source makes Pods bad", "creation/tracker.go", "!t.queue[0].due.After(heard)", "!t.queue[0].due.After(now)", "TestSilentSource$"},
	{"Pods from before count", "creation/tracker.go", "return now.Sub(s.bound) > t.config.Deadline", "return false", "TestOutcomes$"},
	{"what a replica has counted the next one counts too", "creation/tracker.go", "return !since.After(handover)", "return since.IsZero()", "TestHandover$"},
	{"a failing Pod that was open is nobody's", "creation/tracker.go", "return s.bound.Add(t.wait()).Before(handover)", "return true", "TestHandover$"},
	{"an upgrade that makes nodes flap hides its failures", "creation/tracker.go", "(!s.nodeKnown || n.Ready.Status == False) && ", "", "TestOutcomes$"},
	{"a Pod that went while nobody heard was bad", "identity/kube/creation_watch.go", "p.DeletionTimestamp = &p.CreationTimestamp", "_ = p", "TestCreationMissedDeletion$"},
	{"a deletion hides a failure", "creation/judge.go", "case q.events.failures > 0:", "case q.events.failures > 0 && q.deleted.IsZero():", "TestOutcomes$"},
	{"a replayed event counts again", "creation/evidence.go", "if count <= before {", "if false {", "TestPitfall2RelistReplaysEvents$"},
	{"Events of made-up Pods fill the memory", "creation/tracker.go", "if t.orphans >= mostOrphans {", "if false {", "TestPitfall3Starved$"},
	{"a clock that is ahead makes a Pod bad", "creation/judge.go", "told, skewed = seen, true", "skewed = true", "TestPitfall6Clocks$"},
	{"an echo is the cause", "creation/evidence.go", "cause != NameReserved || v.cause == UnknownCause", "true", "TestCauseOfMany$"},
	{"a label for each RuntimeClass that anybody makes up", "creation/metrics.go", "return otherName\n}\n\n// Version", "return name\n}\n\n// Version", "TestMetrics$"},
	{"a PASS without proof", "creation/gate/rule.go", "return k > n || r.atMost(k, n) > 1-r.Confidence", "return k > n || r.atMost(k, n) > r.Confidence", "TestPodsToPass$"},
	{"a FAIL that chance makes", "creation/gate/rule.go", "1-r.atMost(k-1, n) < r.FalseFail", "1-r.atMost(k, n) < r.FalseFail", "TestFailAt$"},
	{"waiting looks until it has a FAIL", "creation/gate/verdict.go", "failAt: r.FailAt(pods)}", "failAt: 1}", "TestPlan$"},
	{"the next replica does not know that there was one", "identity/kube/lease.go", "lead(ctx, lock.handover)", "lead(ctx, time.Time{})", "TestElection$"},
	{"a Pod whose deletion was missed waits for ever", "identity/kube/creation_watch.go", "before.UID != now.UID {", "before.UID == now.UID {", "TestCreationMissedDeletion$"},
	{"no number is a PASS", "cmd/samepod/slo_read.go", "if !(value >= 0 && value <= mostCounted) {", "if false {", "TestGateHostile$"},
	{"failures that nobody has are none", "cmd/samepod/slo_read.go", "results[creation.Bad.String()]; good != bad {", "results[creation.Bad.String()]; false && good != bad {", "TestGateHostile$"},
	{"part of an answer is all of it", "cmd/samepod/slo_read.go", "case len(answer.Warnings) > 0:", "case false:", "TestGateHostile$"},
	{"less than none failed", "cmd/samepod/slo.go", "if c.Good < 0 || c.Good > mostCounted || c.Bad < 0 || c.Bad > mostCounted {", "if false {", "TestGateHostile$"},
	{"what cannot be read is a FAIL", "cmd/samepod/slo.go", "&exitError{code: 3, error: err}", "&exitError{code: 1, error: err}", "TestGateUnanswered$"},
	{"a secret writes YAML", "envoy/secret.go", "strings.HasPrefix(s, \"/\") && plainText.MatchString(s)", "strings.HasPrefix(s, \"/\")", "TestBadSecrets$"},

	{"a 5xx renews", "renewal/entry.go", "status < http.StatusInternalServerError", "status < http.StatusInternalServerError+100", "TestEntry$"},
	{"a request that Envoy refused itself renews", "renewal/entry.go", "return answered && status <", "return status <", "TestEntry$"},
	{"a request that was not sent renews", "renewal/entry.go", "sent := e.GetCommonProperties().GetTimeToFirstUpstreamTxByte() != nil", "sent := true", "TestEntry$"},
	{"a caller that gave up renews", "renewal/entry.go", " && e.GetCommonProperties().GetAccessLogType() == accesslogv3.AccessLogType_DownstreamPeriodic", "", "TestEntry$"},
	{"a sandbox that does not ask is renewed", "renewal/entry.go", "text(written[renewKey]) != \"true\" ||", "", "TestEntry$"},
	{"whatever an entry says is an id", "renewal/entry.go", "case !idForm.MatchString(id):", "case false:", "TestEntry$"},
	{"a Redis that hangs is waited for", "renewal/publisher.go", "\tdefault:\n\t\tp.metrics.count(overflow)\n", "", "TestBlocked$"},
	{"what was dropped counts as published", "renewal/publisher.go", "p.metrics.count(overflow)", "p.metrics.count(overflow)\n\t\tp.last.Add(i.Sandbox, i.ObservedAt)", "TestBlocked$"},
	{"a failure of Redis loses renewals", "renewal/publisher.go", "batch = p.useful(batch)", "batch = nil", "TestFailing$"},
	{"what the server would drop is kept", "renewal/publisher.go", "time.Since(i.ObservedAt) > usefulFor", "false", "TestFailing$"},
	{"what waits at the end is lost", "renewal/publisher.go", "for len(p.waiting) > 0 {", "for false {", "TestEnd$"},
	{"a stream is held in silence", "renewal/service.go", "time.NewTimer(mostSilence)", "time.NewTimer(1000 * mostSilence)", "TestSilence$"},
	{"any number of streams", "renewal/service.go", "return status.Errorf(codes.ResourceExhausted,", "_ = status.Errorf(codes.ResourceExhausted,", "TestMostStreams$"},
	{"an error shows the password", "renewal/redis.go", "return nil, errors.New(\"not shown, it may", "return nil, fmt.Errorf(\"%w\", err)\n\t\treturn nil, errors.New(\"not shown, it may", "TestRedisConfig$"},
	{"the access log is cut as a check is", "authz/grpc.go", "if e.streams[call.FullMethodName] {", "if false {", "TestStreams$"},
	{"the end waits for streams", "authz/grpc.go", "\te.endStreams()\n", "", "TestStreams$"},
	{"a link on the way to the bundles is none", "node/walk.go", "return w.Path == w.Canonical", "return true", "TestWalk$"},
	{"an absolute link leads out of the node's root", "node/walk.go", "securejoin.SecureJoinVFS(h.root, w.Path, seen)", "securejoin.SecureJoinVFS(\"/\", h.root+w.Path, seen)", "TestWalk$"},
	{"the kernel says what it was asked", "node/proof.go", "Opened: h.onNode(opened)}, nil", "Opened: h.onNode(opened)[:0] + asked}, nil", "TestProof$"},
	{"a pipe is read for ever", "node/host.go", "if err == nil && !info.Mode().IsRegular() {", "if false {", "TestHost$"},
	{"what is unknown is right", "node/finding.go", "case f.Severity == Unknown:\n\t\t\tcode = ExitUnknown", "case f.Severity == Unknown:\n\t\t\tcode = ExitOK", "TestExit$"},
	{"where nothing was looked at all is right", "node/finding.go", "if len(r.Findings) == r.Count(Skipped) {", "if false {", "TestExit$"},
	{"a check that says nothing found nothing", "node/check.go", "if len(found) == 0 {", "if false {", "TestSilentCheck$"},
	{"a copy without a link is a node without one", "node/check_paths.go", "case x.host.copied:\n\t\t\treturn []Finding{{Severity: Unknown, Found: c.name() + \": no link in this copy;", "case false:\n\t\t\treturn []Finding{{Severity: Unknown, Found: c.name() + \": no link in this copy;", "TestCopy$"},
	{"of a copy the kernel proves something", "node/check_paths.go", "case x.host.copied:\n\t\t\treturn []Finding{{Severity: Unknown, Found: c.name() + \": of a copy nothing", "case false:\n\t\t\treturn []Finding{{Severity: Unknown, Found: c.name() + \": of a copy nothing", "TestCopy$"},
	{"a state directory that is not there yet has no link", "node/check_paths.go", "case within(walk.Missing, c.State.Value):", "case false:", "TestChecks$"},
	{"the link is looked for in the state directory alone", "node/check_paths.go", "return filepath.Join(c.State.Value, \"io.containerd.runtime.v2.task\", \"k8s.io\")", "return filepath.Clean(c.State.Value)", "TestChecks$"},
	{"a file that was not read changes nothing", "node/containerd.go", "c.Unread = append(c.Unread, err.Error())\n\t\t\tcontinue", "continue", "TestEffective$"},
	{"a containerd in a container has the paths of the node", "node/process.go", "case here != there:", "case here != there && false:", "TestChecks$"},
	{"a copy that has a /proc is a node, and its binaries are run", "node/host.go", " || proc.Type != unix.PROC_SUPER_MAGIC", "", "TestCopyPlaysNode$"},
	{"one runsc that takes links speaks for all", "node/binary.go", "if _, pod := r.BehindLink(); pod != OK {", "if false {", "TestChecks$"},
	{"what was edited is in effect before a restart", "node/process.go", "at.After(p.Began.Add(rounding))", "false", "TestChecks$"},
	{"a binary that anybody wrote is run", "node/binary.go", "mode.Perm()&0o022 != 0:", "mode.Perm()&0 != 0:", "TestAsk$"},
	{"a flag of containerd counts less than its file", "node/containerd.go", "override(flag.to, value, \"the flag --\"+flag.name)", "_ = value", "TestEffective$"},
	{"a runtime under the wrong plugin id is one", "node/containerd.go", "ignored := id != newCRI && version >= 3", "ignored := id != newCRI && version >= 99", "TestEffective$"},
	{"a release that nobody tried takes links", "node/version.go", "return Unknown, Unknown", "return OK, OK", "TestRunscVersion$"},
	{"the release notes' fix helps Pods", "node/version.go", "return OK, Failure", "return OK, OK", "TestRunscVersion$"},
	{"debug keys at top level are in effect", "node/shimconfig.go", "if slices.Contains(shimKeys, key) {", "if true {", "TestChecks$"},
	{"a symptom is as near as its cause", "node/log.go", "return kind*10 + process", "return kind*0 + process", "TestReasons$"},
	{"a symptom is a cause", "node/check_logs.go", "f.Severity, f.Consequence = Unknown, \"The cause is not in these logs.\"", "f.Severity, f.Consequence = Failure, \"\"", "TestReasons$"},
	{"a container that crashes crowds out the cause", "node/log.go", "case s.seen[key]:", "case false:", "TestScanLog$"},
	{"what is too deep to be read is right", "node/check_logs.go", "return fmt.Errorf(\"%s: more than %d directories deep\", path, mostDepth)", "return nil", "TestLogsCheck$"},
	{"a file's name writes to the terminal", "cmd/samepod/plain.go", "case unicode.IsPrint(r):", "case true:", "TestPlain$"},
	{"a report has the secrets of the logs", "node/log.go", "line = secrets.ReplaceAll(line,", "_ = secrets.ReplaceAll(line,", "TestSecrets$"},
	{"a value that is nested for ever is printed", "node/toml.go", "case map[string]any:\n\t\treturn \"a table\"\n", "", "TestChecks$"},
	{"addresses of IPv6 make up for those of IPv4", "node/check_network.go", "for _, set := range sets {", "for _, set := range [][]subnet{slices.Concat(sets...)} {", "TestChecks$"},
	{"a log writes to the terminal", "node/log.go", "\t\t\treturn -1\n", "\t\t\treturn r\n", "TestPrintable$"},
	{"the events of a Pod's predecessor are its own", "node/pod.go", "(o.UID == \"\" || o.UID == p.Metadata.UID)", "true", "TestExplain$"},
	{"the containers of a dead sandbox are a new one", "node/explain.go", "(!known || ended) && ", "(!known || true) && ", "TestExplain$"},
	{"the log of any sandbox explains any Pod", "node/explain.go", " || !slices.Contains(ids, h.Sandbox) })", " })", "TestExplain$"},
	{"a cause that is not known exits 0", "cmd/samepod/explainstart.go", "if err == nil && !a.Known() {", "if false {", "TestScript/doctor$"},
}

func TestMutants(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.breaks, "/", "_"), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(root, m.file)
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(source, []byte(m.old)); n != 1 {
				t.Fatalf("%s has %d times %q; the line of this table is out of date", m.file, n, m.old)
			}
			mutated := filepath.Join(t.TempDir(), filepath.Base(path))
			if err := os.WriteFile(mutated, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			text, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, text, 0o600); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Dir(m.file)
			args := []string{"test", "-overlay", overlay, "-vet=off", "-ldflags=-s -w", "-count=1", "-short", "-timeout=60s", "-run", m.run, "./" + dir}
			if dir == "identity" {
				args = append(args, "-rapid.nofailfile") // it would write into the checkout
			}
			cmd := exec.Command("go", args...)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			name := strings.TrimSuffix(m.run, "$")
			switch {
			case err == nil:
				t.Errorf("%s: %s passes although %s", m.file, name, m.breaks)
			case !bytes.Contains(out, []byte("--- FAIL: "+name)) && !bytes.Contains(out, []byte("panic: test timed out")):
				t.Errorf("%s: %s does not fail, something else does, so the mutant shows nothing:\n%s", m.file, name, out)
			}
		})
	}
}
