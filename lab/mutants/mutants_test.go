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
	{"a list adds to what was there", "identity/feed.go", "listed[name] = nil", "_ = ok", "TestLook$"},
	{"a node address is forgotten with the first of its Pods", "identity/index.go", "if x.nodes[addr]--; x.nodes[addr] == 0 {", "if true {", "TestNodeAddresses$"},
	{"nothing gets stale", "identity/freshness.go", "if s.Age > f.bound {", "if false {", "TestFreshness$"},
	{"what was never listed is believed", "identity/freshness.go", "if !f.synced {\n\t\treturn s\n\t}", "", "TestFreshness$"},
	{"the freshest feed decides", "identity/freshness.go", "s.Freshness < worst.Freshness ||", "s.Freshness > worst.Freshness ||", "TestWorstFeedDecides$"},
	{"an old word renews", "identity/feed.go", "if at.After(f.seen) {\n\t\tf.seen = at\n\t}", "f.seen = at", "TestFreshness$"},
	{"a machine that slept believes what it knew", "identity/freshness.go", "max(now.Sub(then), now.Round(0).Sub(then.Round(0)), 0)", "max(now.Sub(then), 0)", "TestAge$"},
	{"a zone is taken in an API object", "identity/addr.go", `if addr.Zone() != "" {`, "if false {", "TestParseAddr$"},
	{"a mapped address is another key", "identity/addr.go", "return addr.Unmap(), nil", "return addr, nil", "TestParseAddr$"},
	{"any text of an address is taken", "identity/addr.go", "case string(ap.AppendTo(canonical[:0])) != s:", "case string(ap.AppendTo(canonical[:0])) == \"\":", "TestParseAddrPort$"},
	{"an object with two truths is believed", "identity/object.go", "p.Malformed = first.Error()", "", "TestObject$"},

	{"another uid is the same Pod", "authz/verdict.go", "case !c.AnyUID && pod.UID != c.UID:", "case false:", "TestDecide$"},
	{"two holders are one", "authz/verdict.go", "case v.Others > 0:", "case false:", "TestDecide$"},
	{"an address that the Pod lost is dialled", "authz/verdict.go", "case !v.Holds:", "case false:", "TestDecide$"},
	{"a dead Pod is dialled", "authz/verdict.go", "case pod.Terminal():", "case false:", "TestDecide$"},
	{"a dying Pod is dialled", "authz/verdict.go", "case pod.Terminating:", "case false:", "TestDecide$"},
	{"a Pod of the host network is dialled", "authz/verdict.go", "case pod.HostNetwork, pod.Mirror,", "case pod.Mirror,", "TestDecide$"},
	{"a mirror Pod is dialled", "authz/verdict.go", "case pod.HostNetwork, pod.Mirror,", "case pod.HostNetwork,", "TestDecide$"},
	{"a Pod that never ran is dialled", "authz/verdict.go", "case pod.Phase != identity.PhaseRunning,", "case", "TestDecide$"},
	{"a stale view allows", "authz/verdict.go", "case v.Freshness != identity.Fresh:", "case false:", "TestDecideFreshness$"},
	{"the scope is open", "authz/verdict.go", "case !p.Scope.Contains(c.Pod.Namespace):", "case false:", "TestDecide$"},
	{"the selector is ignored", "authz/verdict.go", "case v.Found && !pod.Selected:", "case false:", "TestDecide$"},
	{"every port is open", "authz/verdict.go", "case !p.Ports.Contains(c.Port):", "case false:", "TestDecide$"},
	{"every address is open", "authz/verdict.go", "case p.Addresses.refuses(v.Addr, v.Node) != \"\":", "case false:", "TestDecide$"},
	{"what the token says is ignored", "authz/verdict.go", "case !c.Authorized:", "case false:", "TestDecide$"},
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
	{"what is no Pod is passed over", "identity/kube/guard.go", "return fmt.Errorf(\"watch: a %s event of what is no Pod: %T\", event.Type, event.Object)", "return nil", "TestNonsenseEvents$"},
	{"a silent watch is trusted", "identity/kube/guard.go", "case identity.Age(g.spoken, now) > g.silence:", "case false:", "TestSilentWatch$"},
	{"a bookmark proves nothing", "identity/kube/store.go", "s.feed.Renew(*s.heard.Load())", "", "TestQuietCluster$"},
	{"a bookmark proves what was true when it is processed", "identity/kube/store.go", "s.feed.Renew(*s.heard.Load())", "s.feed.Renew(time.Now())", "TestHeard$"},
	{"a bookmark may go back", "identity/kube/guard.go", "if err != nil || order < 0 {", "if err != nil || order < -1 {", "TestBookmarks$"},
	{"a process that stood still believes what it hears", "identity/kube/guard.go", "case stood > standstill:", "case false:", "TestStandstill$"},
	{"a streaming list that breaks off is asked for again at once", "identity/kube/guard.go", "if g.initial {\n\t\t\treturn errors.New", "if false {\n\t\t\treturn errors.New", "TestStreamingListThatBreaksOff$"},
	{"a streaming list may go on for ever", "identity/kube/guard.go", "case g.initial && now.After(g.ends):", "case false:", "TestStreamingListThatBreaksOff$"},
	{"a refused watch lives on", "identity/kube/watch.go", "w.current.Stop()", "", "TestRefusedStreamEnds$"},
	{"a slow list is never watched on from", "identity/kube/store.go", "s.listed = true", "", "TestSlowList$"},
	{"whatever decodes is a list", "identity/kube/store.go", "if pod.Namespace == \"\" || pod.Name == \"\" || pod.UID == \"\" {", "if false {", "TestListsThatAreNone$"},
	{"half a file is a file", "identity/podsfile/parse.go", "case err != nil:\n\t\t\treturn nil, yamlError(err)", "case err != nil:\n\t\t\treturn r.pods, nil", "TestParse$"},
	{"an empty file is a world without Pods", "identity/podsfile/parse.go", "case errors.Is(err, io.EOF) && !found:", "case found && false:", "TestParse$"},
	{"an edit that keeps its time stamp is missed", "identity/podsfile/source.go", "s.Size, s.Mtim.Nano(), s.Ctim.Nano()}", "s.Size, s.Mtim.Nano(), 0}", "TestHiddenEdits$"},
	{"a file may be of any size", "identity/podsfile/source.go", "case s.Size > mostBytes:", "case false:", "TestNoRegularFile$"},
	{"a broken file renews", "identity/podsfile/source.go", "pods, err := Parse(data, s.Selected)\n", "pods, err := Parse(data, s.Selected)\n\t\ts.Feed.Renew(asOf)\n", "TestBrokenEdit$"},

	{"a request may wait for a connection", "envoy/envoy.yaml.tmpl", "priority: HIGH, max_retries: 0, max_connections: 4294967295", "priority: HIGH, max_retries: 0, max_connections: 1024", "TestHazards$"},
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
	{"a cluster's name writes CEL", "envoy/params.go", "!clusterName.MatchString(p.Cluster) ||", "", "TestBadParams$"},
	{"a number is a string", "cmd/samepod/strict.go", "if n.Kind != yaml.ScalarNode || n.Tag != \"!!str\" {\n\t\t\treturn d.errorf(n, path, \"%s; allowed: a string\"", "if n.Kind != yaml.ScalarNode {\n\t\t\treturn d.errorf(n, path, \"%s; allowed: a string\"", "TestBadConfig$"},
	{"an empty selector selects all", "cmd/samepod/config.go", "if len(c.MatchLabels) == 0 && len(c.MatchExpressions) == 0 {", "if false {", "TestBadConfig$"},
	{"anyone may listen without TLS", "cmd/samepod/listen.go", "if err == nil && !local {\n\t\terr = secured.expose", "if err == nil && !local && false {\n\t\terr = secured.expose", "TestListen$"},
	{"a port without TLS needs no flag", "cmd/samepod/tls.go", "case !f.enabled() && !f.insecure:", "case false:", "TestListen$"},
	{"TLS is enough, whoever asks", "cmd/samepod/tls.go", "case f.enabled() && f.clientCA == \"\" && !f.anyClient:", "case false:", "TestListen$"},
	{"a list of clients without a CA is believed to be one", "cmd/samepod/tls.go", "case f.clientCA == \"\" && len(f.identities) > 0:", "case false:", "TestScript$"},
	{"no list of clients is every client", "cmd/samepod/tls.go", "case f.clientCA != \"\" && len(f.identities) == 0:", "case false:", "TestScript$"},
	{"the service serves without its certificate", "cmd/samepod/serve.go", "endpoint.Credentials = keeper.Credentials()", "", "TestServeTLS$"},
	{"a connection lives for ever", "cmd/samepod/serve.go", ", ConnectionAge: f.maxAge}", "}", "TestConnectionAge$"},
	{"Envoy goes on asking a replica that is stale", "cmd/samepod/health.go", "should := synced && (!anyStale || !r.unhealthyWhenStale)", "should := synced", "TestUnhealthyWhenStale$"},
	{"any number of connections", "cmd/samepod/listen.go", "mostProven: f.maxConns}", "mostProven: 1 << 20}", "TestMaxConnections$"},
	{"silent connections have the places of others", "cmd/samepod/bound.go", "if l.unproven.Len() <= l.mostUnproven {", "if true {", "TestHTTPConnections$"},
	{"the newest goes for a silent one", "cmd/samepod/bound.go", "l.unproven.Front()", "l.unproven.Back()", "TestFlood$"},
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
	{"a message that never ends is waited for", "authz/grpc.go", "grpc.InTapHandle(bounded),", "", "TestUnfinishedMessages$"},
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
	{"what cannot be read is a FAIL", "cmd/samepod/slo.go", "&exitError{code: 3, error: err}", "&exitError{code: 1, error: err}", "TestGateUnanswered$"},
	{"a secret writes YAML", "envoy/secret.go", "strings.HasPrefix(s, \"/\") && plainText.MatchString(s)", "strings.HasPrefix(s, \"/\")", "TestBadSecrets$"},
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
