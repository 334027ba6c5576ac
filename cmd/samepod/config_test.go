package main

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/samepod/samepod/authz"
)

const minimal = "scope: {namespaces: [ns]}\nports: [80]\n"

func load(t *testing.T, text string) (settings, error) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("samepod.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return loadConfig("samepod.yaml")
}

// TestBadConfig: every error names the file, the line where there is one, the
// field, what stands there and what is allowed.
func TestBadConfig(t *testing.T) {
	for _, tc := range []struct{ rule, in, want string }{
		{"empty", "", "samepod.yaml: empty"},
		{"no YAML", "scope: [", "samepod.yaml: line 1: did not find expected node content"},
		{"not a mapping", "hello", `samepod.yaml:1:1: the file: "hello"; allowed: a mapping with the keys dialect, claim, opensandbox, agentSandbox, assert, scope, ports, addresses, history`},
		{"two documents", minimal + "---\n" + minimal, "samepod.yaml: more than one document; allowed: one"},
		{"unknown key", minimal + "portz: [80]\n", "samepod.yaml:3:1: portz: unknown key; allowed: dialect, claim, opensandbox, agentSandbox, assert, scope, ports, addresses, history"},
		{"unknown key, deep", minimal + "claim:\n  target:\n    headr: x\n", "samepod.yaml:5:5: claim.target.headr: unknown key; allowed: header, contextExtension, metadata"},
		{"another case", minimal + "Claim: {}\n", "samepod.yaml:3:1: Claim: unknown key"},
		{"a key twice", minimal + "ports: [81]\n", "samepod.yaml:3:1: ports: the key stands already at line 2"},
		{"a number for a string", minimal + "claim: {target: {header: 5}}\n", `samepod.yaml:3:26: claim.target.header: the number 5; allowed: a string`},
		{"a boolean for a string", minimal + "claim: {target: {header: true}}\n", `the boolean true; allowed: a string`},
		{"null for a string", minimal + "claim: {target: {header: }}\n", "claim.target.header: is empty; allowed: a string"},
		{"a list for a string", minimal + "claim: {target: {header: [x]}}\n", "claim.target.header: is a list; allowed: a string"},
		{"a string for a mapping", minimal + "claim: {target: x-pod}\n", `claim.target: "x-pod"; allowed: a mapping with the keys header, contextExtension, metadata`},
		{"null for a mapping", minimal + "claim:\n", "claim: is empty; allowed: a mapping"},
		{"a string for a list", "scope: {namespaces: ns}\nports: [80]\n", `samepod.yaml:1:21: scope.namespaces: "ns"; allowed: a list`},
		{"a number in a list", "scope: {namespaces: [7]}\nports: [80]\n", `scope.namespaces[0]: the number 7; allowed: a string`},
		{"yes for true", minimal + "claim: {uid: {optional: yes}}\n", `claim.uid.optional: "yes"; allowed: true, false`},
		{"a number for a duration", minimal + "history: {ttl: 5}\n", `history.ttl: the number 5; allowed: a duration such as 90s or 24h`},
		{"a negative duration", minimal + "history: {ttl: -5s}\n", "allowed: a duration"},
		{"a negative number", minimal + "history: {addresses: -1}\n", `history.addresses: the number -1; allowed: a whole number from 1 to 1000000000`},
		{"a float", minimal + "history: {addresses: 1.5}\n", "history.addresses: the number 1.5; allowed: a whole number from 1"},
		{"an alias", "scope: &s {namespaces: [ns]}\nports: [80]\n", "samepod.yaml:1:8: scope: anchors and aliases are not allowed"},

		{"no scope", "ports: [80]\n", `samepod.yaml: scope.namespaces: missing; allowed: a list of namespaces, or ["*"] for every one`},
		{"no namespaces", "scope: {}\nports: [80]\n", "scope.namespaces: missing"},
		{"empty namespaces", "scope: {namespaces: []}\nports: [80]\n", "samepod.yaml:1:21: scope.namespaces: empty; allowed"},
		{"a star among others", "scope: {namespaces: [ns, '*']}\nports: [80]\n", `"*" stands alone`},
		{"a bad namespace", "scope: {namespaces: [N]}\nports: [80]\n", `scope.namespaces: "N": the namespace must be a DNS label`},
		{"an empty selector", "scope: {namespaces: [ns], selector: {}}\nports: [80]\n", "samepod.yaml:1:37: scope.selector: {} would select every Pod; leave selector out to say that"},
		{"a selector of nothing", "scope: {namespaces: [ns], selector: {matchLabels: {}}}\nports: [80]\n", "{} would select every Pod"},
		{"a bad operator", "scope: {namespaces: [ns], selector: {matchExpressions: [{key: a, operator: Is}]}}\nports: [80]\n", `samepod.yaml:1:76: scope.selector.matchExpressions[0].operator: "Is"; allowed: In, NotIn, Exists, DoesNotExist`},
		{"a bad label", "scope: {namespaces: [ns], selector: {matchLabels: {'a b': c}}}\nports: [80]\n", "scope.selector: key: Invalid value"},
		{"a label twice", "scope: {namespaces: [ns], selector: {matchLabels: {a: b, a: c}}}\nports: [80]\n", "scope.selector.matchLabels.a: the key stands twice"},

		{"no ports", "scope: {namespaces: [ns]}\n", "samepod.yaml: ports: missing; allowed: a list of ports and ranges, or any (sandboxes of OpenSandbox listen on 44772"},
		{"empty ports", "scope: {namespaces: [ns]}\nports: []\n", "samepod.yaml:2:8: ports: missing; allowed"},
		{"a port that is none", "scope: {namespaces: [ns]}\nports: [http]\n", `samepod.yaml:2:8: ports: "http"; allowed: a port 1 to 65535`},
		{"port 0", "scope: {namespaces: [ns]}\nports: [0]\n", `ports: "0"; allowed`},
		{"a padded port", "scope: {namespaces: [ns]}\nports: [0o120]\n", `ports: "0o120"; allowed`},
		{"any in a list", "scope: {namespaces: [ns]}\nports: [any]\n", `samepod.yaml:2:8: ports: "any"; allowed: a port`},
		{"a float port", "scope: {namespaces: [ns]}\nports: [80.5]\n", `ports: "80.5"; allowed`},
		{"a scalar for ports", "scope: {namespaces: [ns]}\nports: 80\n", `ports: the number 80; allowed: a list of ports and ranges, or any`},

		{"an alias for a key", "&ports scope: {namespaces: [ns]}\n*ports : any\n", "samepod.yaml:1:1: the file: a key that is no plain string"},
		{"a number for a label", "scope: {namespaces: [ns], selector: {matchLabels: {1: a}}}\nports: [80]\n", "scope.selector.matchLabels: a key that is no plain string"},
		{"a tag", "scope: !x {namespaces: [ns]}\nports: [80]\n", "scope: the tag !x; allowed: no tags"},
		{"an empty header", minimal + "claim: {uid: {header: ''}}\n", `claim.uid.header: ""; allowed: a string that is not empty`},
		{"a very short ttl", minimal + "history: {ttl: 50ns}\n", "samepod.yaml:3:10: history: ttl: 50ns; allowed: 0s for ever, or at least 1s"},
		{"a number for no ttl", minimal + "history: {ttl: 0}\n", "history.ttl: the number 0; allowed: a duration"},
		{"no CIDRs", minimal + "addresses: {cidrs: []}\n", "samepod.yaml:3:20: addresses.cidrs: [] would be every address; leave cidrs out to say that"},
		{"a star that is not quoted", "scope: {namespaces: [*]}\nports: [80]\n", `a value that begins with * or & must be quoted, as in ["*"]`},
		{"a port twice", "scope: {namespaces: [ns]}\nports: [80, 80-81]\n", `ports: "80-81": is in "80" already`},
		{"a framing header", minimal + "claim: {target: {header: content-length}}\n", `header "content-length"; allowed`},
		{"a quote in a header", minimal + "claim: {target: {header: \"x'y\"}}\n", "allowed: a name in lower case"},
		{"a huge number", minimal + "history: {addresses: 99999999999999999999}\n", "allowed: a whole number from 1 to 1000000000"},
		{"a bad CIDR", minimal + "addresses: {cidrs: [10.0.0.1/8]}\n", `samepod.yaml:3:20: addresses.cidrs: "10.0.0.1/8"; canonical is "10.0.0.0/8"`},
		{"no history", minimal + "history: {addresses: 0}\n", "history.addresses: the number 0; allowed: a whole number from 1"},

		{"another dialect", minimal + "dialect: e2b\n", `samepod.yaml:3:10: dialect: "e2b"; allowed: claim, opensandbox, agent-sandbox`},
		{"another engine's section", minimal + "dialect: agent-sandbox\nopensandbox: {mode: uri}\n", "samepod.yaml: opensandbox: without effect; dialect is agent-sandbox"},
		{"an engine's section and no engine", minimal + "agentSandbox: {defaultPort: 80}\n", "samepod.yaml: agentSandbox: without effect; dialect is claim"},
		{"assert and no engine", minimal + "assert: true\n", "samepod.yaml: assert: without effect; dialect is claim"},
		{"a claim of an engine", minimal + "dialect: opensandbox\nclaim: {target: {header: x}}\n", "samepod.yaml: claim: with the dialect opensandbox only allowed has an effect"},
		{"a mode that is none", minimal + "dialect: opensandbox\nopensandbox: {mode: wildcard}\n", `samepod.yaml:4:21: opensandbox.mode: "wildcard"; allowed: header, uri`},
		{"a provider that is none", minimal + "dialect: opensandbox\nopensandbox: {providers: [docker]}\n", `samepod.yaml:4:27: opensandbox.providers[0]: "docker"; allowed: batchsandbox, agent-sandbox`},
		{"a provider twice", minimal + "dialect: opensandbox\nopensandbox: {providers: [batchsandbox, batchsandbox]}\n", "opensandbox: providers: batchsandbox: listed twice"},
		{"a default port that is none", minimal + "dialect: agent-sandbox\nagentSandbox: {defaultPort: 65536}\n", "agentSandbox: defaultPort: 65536: must be a port"},
		{"a default namespace that is none", minimal + "dialect: agent-sandbox\nagentSandbox: {defaultNamespace: A}\n", "agentSandbox: default namespace: \"A\""},
		{"a prefix that is none", minimal + "dialect: agent-sandbox\nagentSandbox: {pathPrefix: sandboxes}\n", "agentSandbox: path prefix: \"sandboxes\"; allowed: a path that begins with '/'"},
		{"a source of nothing", minimal + "claim: {target: {}}\n", "samepod.yaml:3:17: claim.target: 0 places; allowed: exactly one of header, contextExtension and metadata"},
		{"a source of two things", minimal + "claim: {uid: {header: a, contextExtension: b}}\n", "claim.uid: 2 places; allowed: exactly one of"},
		{"a header in capitals", minimal + "claim: {target: {header: X-Pod}}\n", `samepod.yaml:3:17: claim.target: header "X-Pod"; allowed: a name in lower case`},
		{"a pseudo header", minimal + "claim: {target: {header: ':path'}}\n", `":path"; allowed`},
		{"the host", minimal + "claim: {target: {header: host}}\n", `"host"; allowed`},
		{"one of Envoy's", minimal + "claim: {target: {header: x-envoy-original-dst-host}}\n", "but not x-envoy-*"},
		{"the fence's header", minimal + "claim: {uid: {header: x-samepod-pod-uid}}\n", `header "x-samepod-pod-uid"; allowed`},
		{"half a metadata path", minimal + "claim: {target: {metadata: {namespace: a}}}\n", "samepod.yaml:3:28: claim.target.metadata: namespace and path must be set"},
		{"a slash in a path", minimal + "claim: {target: {metadata: {namespace: a, path: [b/c]}}}\n", `claim.target.metadata: path: "b/c"; allowed: keys without '/'`},
		{"two fields in one place", minimal + "claim: {target: {header: x}, uid: {header: x}}\n", "claim: two fields stand in header x"},
		{"a default and a field in one place", minimal + "claim: {target: {header: x-samepod-port}}\n", "claim: two fields stand in header x-samepod-port"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			_, err := load(t, tc.in)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("\n got %v\nwant %s", err, tc.want)
			}
		})
	}
}

// TestConfigFile: what cannot be read to an end is not begun.
func TestConfigFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large, whole := filepath.Join(dir, "pipe"), filepath.Join(dir, "large.yaml"), filepath.Join(dir, "whole.yaml")
	padded := func(bytes int) []byte { return []byte(minimal + strings.Repeat("#", bytes-len(minimal))) }
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), os.WriteFile(large, padded(1<<20+1), 0o600), os.WriteFile(whole, padded(1<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file or directory", pipe: "is no regular file", dir: "is no regular file",
		large: "has 1048577 bytes; allowed: at most 1048576",
	} {
		if _, err := loadConfig(path); err == nil || !strings.HasPrefix(err.Error(), "--config: ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := loadConfig(whole); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
}

func TestConfig(t *testing.T) {
	s, err := load(t, minimal)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(authz.DefaultMapping(), s.claims); diff != "" {
		t.Errorf("the default mapping (-want +got):\n%s", diff)
	}
	if s.policy.Ports.String() != "80" || s.policy.Scope.String() != "ns" || s.selector.String() != "" || !s.selected(nil) || s.history.TTL != 24*time.Hour {
		t.Errorf("settings = %+v", s)
	}

	s, err = load(t, `
dialect: claim
claim:
  target: {contextExtension: pod}
  uid:
    metadata: {namespace: envoy.filters.http.jwt_authn, path: [payload, pod_uid]}
    optional: true
  recorded: {header: x-addr}
  allowed: {metadata: {namespace: jwt, path: [pod]}}
scope:
  namespaces: ["*"]
  selector:
    matchLabels: {app: sandbox}
    matchExpressions:
    - {key: tier, operator: In, values: [a, b]}
    - {key: system, operator: DoesNotExist}
ports: any
addresses: {cidrs: [10.0.0.0/8, "fd00::/8"]}
history: {addresses: 5, tenures: 2, ttl: 1h}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := authz.Mapping{
		Target:      authz.Source{ContextExtension: "pod"},
		UID:         authz.Source{Metadata: authz.MetadataPath{Namespace: "envoy.filters.http.jwt_authn", Path: "payload/pod_uid"}},
		UIDOptional: true,
		Recorded:    authz.Source{Header: "x-addr"},
		Port:        authz.Source{Header: "x-samepod-port"},
		Allowed:     authz.Source{Metadata: authz.MetadataPath{Namespace: "jwt", Path: "pod"}},
	}
	if diff := cmp.Diff(want, s.claims); diff != "" {
		t.Errorf("mapping (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		labels map[string]string
		want   bool
	}{
		{map[string]string{"app": "sandbox", "tier": "a"}, true},
		{map[string]string{"app": "sandbox", "tier": "c"}, false},
		{map[string]string{"app": "sandbox", "tier": "a", "system": ""}, false},
		{map[string]string{"tier": "a"}, false},
		{nil, false},
	} {
		if got := s.selected(tc.labels); got != tc.want {
			t.Errorf("selected(%v) = %v", tc.labels, got)
		}
	}
	if s.policy.Ports.String() != "any" || s.policy.Scope.String() != "every namespace" || len(s.policy.Addresses.Prefixes()) != 2 {
		t.Errorf("policy = %+v", s.policy)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(minimal)
	f.Add("claim: {uid: {optional: yes}}")
	f.Fuzz(func(t *testing.T, text string) {
		c := defaultConfig()
		if err := decodeStrict("f", strings.NewReader(text), &c); err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("an error without its file: %v", err)
			}
			return
		}
		_, _ = c.settings() // must not panic
	})
}

// TestSecureAccessKeys: who serves reads the keys, who renders Envoy's side has none.
func TestSecureAccessKeys(t *testing.T) {
	for _, tc := range []struct{ rule, keys, want string }{
		{"right", "a=" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")), ""},
		{"wrong", "a", "opensandbox.secureAccessKeysFile: keys: "},
		{"none", "", "opensandbox.secureAccessKeysFile: stat keys: no such file or directory"},
	} {
		s, err := load(t, minimal+"dialect: opensandbox\nopensandbox: {secureAccessKeysFile: keys}\n")
		if err != nil {
			t.Fatal(tc.rule, err) // load is in a directory of its own
		}
		if tc.keys != "" {
			if err := os.WriteFile("keys", []byte(tc.keys), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		switch err := s.readKeys(); {
		case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", tc.rule, err, tc.want)
		}
	}
}

// TestConfigEngine: what the sections of engines come to.
func TestConfigEngine(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("a="+base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		rule, in  string
		sandboxes []string
		pools     bool
		setsPath  bool
		follow    bool
		owners    int
	}{
		{"OpenSandbox", "dialect: opensandbox\n", []string{"batchsandboxes"}, true, false, false, 2},
		{"OpenSandbox by path", "dialect: opensandbox\nopensandbox: {mode: uri, secureAccessKeysFile: " + keys + "}\n", []string{"batchsandboxes"}, true, true, false, 2},
		{"OpenSandbox on agent-sandbox", "dialect: opensandbox\nopensandbox: {providers: [agent-sandbox]}\n", []string{"sandboxes"}, false, false, false, 1},
		{"OpenSandbox on both", "dialect: opensandbox\nopensandbox: {providers: [batchsandbox, agent-sandbox]}\n", []string{"batchsandboxes", "sandboxes"}, true, false, false, 3},
		{"agent-sandbox", "dialect: agent-sandbox\n", []string{"sandboxes"}, false, false, true, 1},
		{"agent-sandbox by path", "dialect: agent-sandbox\nagentSandbox: {pathPrefix: /s, defaultPort: 80, defaultNamespace: ns}\n", []string{"sandboxes"}, false, true, true, 1},
	} {
		s, err := load(t, minimal+tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.rule, err)
			continue
		}
		var sandboxes []string
		for _, k := range s.engine.sandboxes {
			sandboxes = append(sandboxes, k.resource.Plural)
		}
		e := s.engine
		if !slices.Equal(sandboxes, tc.sandboxes) || (e.pools != nil) != tc.pools || e.setsPath != tc.setsPath || e.follow != tc.follow || len(s.keep(false).Owners) != tc.owners {
			t.Errorf("%s: %v, pools %v, sets the path %v, follows %v, owners %v", tc.rule, sandboxes, e.pools, e.setsPath, e.follow, s.keep(false).Owners)
		}
	}
}
