package mtls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Files are PEM files. ClientCA is empty where clients need no certificate.
type Files struct{ Cert, Key, ClientCA string }

// mostBytes is the largest file that is read; a bundle of CAs has some hundred
// thousand.
const mostBytes = 1 << 20

// content is what the files say, as bytes.
type content struct{ cert, key, clientCA []byte }

func (c content) equal(d content) bool {
	return bytes.Equal(c.cert, d.cert) && bytes.Equal(c.key, d.key) && bytes.Equal(c.clientCA, d.clientCA)
}

// read reads all files. Somebody may be changing them one after the other, or may
// switch a mounted Secret's directory between two of them; what is then read does
// not fit together, and the next look sees the rest.
func (f Files) read() (c content, err error) {
	for _, part := range []struct {
		path string
		to   *[]byte
	}{{f.Cert, &c.cert}, {f.Key, &c.key}, {f.ClientCA, &c.clientCA}} {
		if part.path == "" {
			continue
		}
		if *part.to, err = readFile(part.path); err != nil {
			return content{}, err
		}
	}
	return c, nil
}

// readFile reads a regular file. A pipe would be waited for.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is no regular file", path)
	case info.Size() > mostBytes:
		return nil, fmt.Errorf("%s: has %d bytes; allowed: at most %d", path, info.Size(), mostBytes)
	}
	return os.ReadFile(path) //nolint:gosec // the operator's own file
}

// config makes of the files what a handshake needs, if all of it is good at this
// time. Its errors name files and never hold what is in them.
func (f Files) config(c content, clients Identities, now time.Time) (*tls.Config, error) {
	if _, err := certificates(c.cert); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", f.Cert, f.Key, err)
	}
	if err := judge(pair.Leaf, now); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		// Each connection proves anew who the client is. Envoy connects rarely, so a
		// whole handshake costs nothing.
		SessionTicketsDisabled: true,
	}
	if f.ClientCA == "" {
		return config, nil
	}
	cas, err := certificates(c.clientCA)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.ClientCA, err)
	}
	if err := judgeCAs(cas, now); err != nil {
		return nil, fmt.Errorf("%s: %w", f.ClientCA, err)
	}
	config.ClientCAs = x509.NewCertPool()
	for _, ca := range cas {
		config.ClientCAs.AddCert(ca)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.VerifiedChains) == 0 {
			return errors.New("the client has no certificate that was verified")
		}
		return clients.admit(s.VerifiedChains[0][0])
	}
	return config, nil
}

// judge says why a certificate would be refused by every client.
func judge(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("is not valid before %s", instant(leaf.NotBefore))
	case now.After(leaf.NotAfter):
		return fmt.Errorf("expired at %s", instant(leaf.NotAfter))
	case len(leaf.DNSNames)+len(leaf.URIs)+len(leaf.IPAddresses) == 0:
		return errors.New("has no subject alternative name, so no client can tell whose it is")
	case len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return errors.New("is no server certificate: its extended key usage lacks serverAuth")
	}
	return nil
}

// judgeCAs says why no client could ever be admitted, or why one of the certificates
// vouches for none. Those of a bundle may expire one after the other.
func judgeCAs(cas []*x509.Certificate, now time.Time) error {
	valid := false
	for i, ca := range cas {
		if !ca.IsCA || ca.KeyUsage != 0 && ca.KeyUsage&x509.KeyUsageCertSign == 0 {
			return fmt.Errorf("certificate %d (%q) is no CA: it may not sign certificates", i+1, ca.Subject)
		}
		valid = valid || !now.Before(ca.NotBefore) && !now.After(ca.NotAfter)
	}
	if !valid {
		return fmt.Errorf("no CA is valid now: the last expires at %s", instant(slices.MaxFunc(cas, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter))
	}
	return nil
}

// certificates reads all certificates of a PEM file, of which there must be one.
// crypto/x509 would pass over one that is cut off, and trust or send the others.
func certificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	rest := text
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, cert)
	}
	switch {
	case bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")) != len(all):
		return nil, fmt.Errorf("certificate %d is cut off or no PEM", len(all)+1)
	case len(all) == 0:
		return nil, errors.New("holds no certificate; allowed: PEM")
	}
	return all, nil
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
