package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/samepod/samepod/mtls"
)

// tlsFlags say how the listeners for Envoy are secured.
type tlsFlags struct {
	cert, key  string
	clientCA   string
	identities []string
	anyClient  bool // TLS for clients without a certificate
	insecure   bool // no TLS
}

// tlsPoll is the time between two looks at the files. They are small, and a broken
// edit should be told while its author still looks.
const tlsPoll = time.Second

func (f *tlsFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.cert, "tls-cert-file", "", "PEM `file` with the certificate chain of the TCP listeners for Envoy, read again when it changes; TLS 1.3 only")
	flags.StringVar(&f.key, "tls-key-file", "", "PEM `file` with its key")
	flags.StringVar(&f.clientCA, "tls-client-ca-file", "", "PEM `file` with the CAs of clients; without it no client needs a certificate")
	flags.StringArrayVar(&f.identities, "tls-client-identity", nil, "`name` of a client in its certificate: exactly a spiffe:// URI or a DNS name, never the common name; may be repeated; * alone for every certificate of the client CA")
	flags.BoolVar(&f.anyClient, "tls-any-client", false, "allow --listen on an address that is not loopback with TLS but without --tls-client-ca-file: it tells addresses and uids of Pods to anyone who asks")
	flags.BoolVar(&f.insecure, "insecure-authz", false, "allow --listen on an address that is not loopback without TLS: it tells addresses and uids of Pods to anyone who asks, and whoever stands between can let any request through")
}

func (f *tlsFlags) enabled() bool { return f.cert != "" }

// check says which flags are missing or without effect beside the others.
func (f *tlsFlags) check(listen []string) error {
	exposed := slices.ContainsFunc(listen, isExposed)
	switch {
	case f.cert != "" && f.key == "":
		return errors.New("--tls-key-file: missing; --tls-cert-file has a certificate without a key")
	case f.cert == "" && f.key != "":
		return errors.New("--tls-cert-file: missing; --tls-key-file has a key without a certificate")
	case !f.enabled() && f.clientCA != "":
		return errors.New("--tls-client-ca-file: without effect; there is no --tls-cert-file")
	case f.clientCA == "" && len(f.identities) > 0:
		return errors.New("--tls-client-identity: without effect; there is no --tls-client-ca-file")
	case f.clientCA != "" && len(f.identities) == 0:
		return fmt.Errorf("--tls-client-identity: missing; allowed: the names of the clients, or %q for every certificate of the client CA", mtls.AnyIdentity)
	case f.enabled() && !slices.ContainsFunc(listen, isTCP):
		return errors.New("--tls-cert-file: without effect; every --listen is a unix socket")
	case f.anyClient && !f.enabled():
		return errors.New("--tls-any-client: without effect; there is no --tls-cert-file")
	case f.anyClient && f.clientCA != "":
		return errors.New("--tls-any-client: without effect; --tls-client-ca-file asks every client for a certificate")
	case f.insecure && f.enabled():
		return errors.New("--insecure-authz: without effect; --tls-cert-file is there")
	case (f.anyClient || f.insecure) && !exposed:
		return fmt.Errorf("--%s: without effect; every --listen is loopback or a unix socket", map[bool]string{true: "insecure-authz", false: "tls-any-client"}[f.insecure])
	}
	return nil
}

// expose says why an address that is not loopback must not be listened on.
func (f *tlsFlags) expose(address string) error {
	switch {
	case f.enabled() && f.clientCA == "" && !f.anyClient:
		return fmt.Errorf("%q: not loopback, and without client certificates whoever reaches it learns addresses and uids of Pods; allowed: loopback, unix:///path, --tls-client-ca-file, or --tls-any-client", address)
	case !f.enabled() && !f.insecure:
		return fmt.Errorf("%q: not loopback, and without TLS whoever reaches it learns addresses and uids of Pods; allowed: loopback, unix:///path, --tls-cert-file, or --insecure-authz", address)
	}
	return nil
}

// open reads the files; without them it returns nil.
func (f *tlsFlags) open(log *slog.Logger) (*mtls.Keeper, error) {
	if !f.enabled() {
		return nil, nil //nolint:nilnil // no TLS is no error
	}
	identities, err := mtls.ParseIdentities(f.identities)
	if err != nil {
		return nil, fmt.Errorf("--tls-client-identity: %w", err)
	}
	keeper, err := mtls.Open(mtls.Files{Cert: f.cert, Key: f.key, ClientCA: f.clientCA}, identities, log)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file, --tls-key-file, --tls-client-ca-file: %w", err)
	}
	return keeper, nil
}

// notes are the settings that let anyone ask.
func (f *tlsFlags) notes() []string {
	var n []string
	if f.insecure {
		n = append(n, "--insecure-authz: whoever reaches the listener learns addresses and uids of Pods, and whoever stands between Envoy and it can let any request through")
	}
	if f.anyClient {
		n = append(n, "--tls-any-client: whoever reaches the listener learns addresses and uids of Pods")
	}
	if slices.Contains(f.identities, mtls.AnyIdentity) {
		n = append(n, "--tls-client-identity *: whoever has a certificate of the client CA learns addresses and uids of Pods")
	}
	return n
}
