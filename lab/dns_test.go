package lab_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// startDNS starts a name server on loopback that answers questions for IPv4
// addresses, in the order that it is told.
func startDNS(t *testing.T, addresses func(name string) []netip.Addr) netip.AddrPort {
	t.Helper()
	conn := must(net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))(t)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			if q.Type == dnsmessage.TypeA {
				for _, a := range addresses(strings.TrimSuffix(q.Name.String(), ".")) {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60},
						Body:   &dnsmessage.AResource{A: a.As4()},
					})
				}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteToUDPAddrPort(answer, from)
			}
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}
