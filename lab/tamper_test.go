package lab_test

import (
	"fmt"
	"strings"
	"testing"
)

// setState is a filter that writes addresses into filter state, as an operator's
// own filter might.
func setState(keys map[string]string) string {
	text := `          - name: tamper
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config
              on_request_headers:
`
	for key, value := range keys {
		factory := ""
		if key == "samepod.upstream" {
			factory = "\n                factory_key: envoy.string"
		}
		text += fmt.Sprintf("              - object_key: %s%s\n                format_string: { text_format_source: { inline_string: %q } }\n", key, factory, value)
	}
	return text
}

// setMetadata is a filter that overwrites what samepod returned.
func setMetadata(upstream string) string {
	return fmt.Sprintf(`          - name: tamper-metadata
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
              metadata: [ { metadata_namespace: envoy.filters.http.ext_authz, allow_overwrite: true, value: { samepod_upstream: %q } } ]
`, upstream)
}

const (
	originalDst = "envoy.network.transport_socket.original_dst_address"
	copied      = "samepod.upstream"
)

// TestTampering puts filters of an operator's own before and behind samepod's that
// write the address of B while the verdict says A. What Envoy makes of it changed
// with 1.39: filter state can no longer be made read-only, so the last writer of
// the address wins and not the first, and the assertion must notice. The rows that
// reach B are the reason why the printed fragments forbid such filters.
func TestTampering(t *testing.T) {
	both := func(upstream string) string {
		return setState(map[string]string{originalDst: upstream, copied: upstream})
	}
	dst := func(upstream string) string { return setState(map[string]string{originalDst: upstream}) }
	all := func(upstream string) string { return setMetadata(upstream) + both(upstream) }
	none := func(string) string { return "" }
	const (
		reachesA = "A"
		reachesB = "B: unsafe"
		refused  = "409 upstream-not-verified"
	)
	rows := []struct {
		what           string
		arrangement    string
		before, behind func(upstream string) string
		until138       string
		since139       string
	}{
		{"the address, behind", "resolve", none, dst, reachesA, reachesB},
		{"the address, behind", "both", none, dst, reachesA, refused},
		{"the address and its copy, behind", "both", none, both, reachesA, refused},
		{"the metadata, behind", "both", none, setMetadata, reachesA, refused},
		{"everything, behind", "both", none, all, reachesA, reachesB},
		{"the address, before", "both", dst, none, reachesB, reachesA},
	}
	onEveryEnvoy(t, func(t *testing.T, version string) {
		a := newSamepodArm(t)
		podA := a.run("a", "uid-a", a.addrs.Take())
		podB := a.run("b", "uid-b", a.addrs.Take())
		for i, row := range rows {
			const check, router = "          - name: envoy.filters.http.ext_authz\n", "          - name: envoy.filters.http.router\n"
			config := string(a.bootstrap(version, a.samepod.Authz.String(), "--upstream", row.arrangement))
			config = strings.Replace(config, check, row.before(podB.Addr.String())+check, 1)
			config = strings.Replace(config, router, row.behind(podB.Addr.String())+router, 1)
			a.envoy = must(a.StartEnvoy(t.Context(), fmt.Sprintf("envoy-%d", i), envoyBinary(t, version), []byte(config)))(t)
			a.waitVerdicts()
			want := row.until138
			if minor(version) >= 39 {
				want = row.since139
			}
			c := do(t, "GET", a.envoy.URL("/ping"), "", claimOn("a", "uid-a", podA.Addr.Addr())...)
			got := fmt.Sprintf("%d %s", c.status, c.reason())
			switch {
			case strings.Contains(c.body, "by a uid-a"):
				got = reachesA
			case strings.Contains(c.body, "by b uid-b"):
				got = reachesB
			}
			if got != want {
				t.Errorf("%s, %s: %s, want %s", row.arrangement, row.what, got, want)
			}
			a.envoy.Kill()
		}
	})
}
