package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// CA is a certificate authority of an experiment.
type CA struct {
	PEM  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf is what a certificate is to say. The zero value is valid from an hour ago
// for two hours, for servers and clients, and has no name.
type Leaf struct {
	Names      []string // DNS names, IP addresses and URIs
	CommonName string
	NotBefore  time.Time
	NotAfter   time.Time
	Usage      []x509.ExtKeyUsage
	Change     func(*x509.Certificate) // what no ordinary certificate says; may be nil
}

// NewCA makes a CA.
func NewCA(name string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &CA{PEM: encode("CERTIFICATE", der), cert: cert, key: key}, err
}

// Issue makes a certificate and its key, in PEM.
func (ca *CA) Issue(l Leaf) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: l.CommonName}, NotBefore: l.NotBefore, NotAfter: l.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: l.Usage,
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = now.Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = now.Add(time.Hour)
	}
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	for _, name := range l.Names {
		ip, err := netip.ParseAddr(name)
		switch {
		case err == nil:
			template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
		case strings.Contains(name, "://"):
			uri, err := url.Parse(name)
			if err != nil {
				return nil, nil, err
			}
			template.URIs = append(template.URIs, uri)
		default:
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if l.Change != nil {
		l.Change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, private.Public(), ca.key)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
