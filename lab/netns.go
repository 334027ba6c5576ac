package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hostNetwork is the environment variable by which a process on a node knows the
// network namespace that is not its own to change.
const hostNetwork = "SAMEPOD_LAB_HOST_NETWORK"

// ErrNoNamespace is returned where this process may not make network namespaces.
var ErrNoNamespace = errors.New("no network namespaces here")

// OnNode reports whether this process was started by [RunOnNode].
func OnNode() bool { return os.Getenv(hostNetwork) != "" }

// RunOnNode runs a program to its end in a network namespace of its own, which is
// the node: it, and whatever it starts, has nothing but loopback and the bridges of
// [Lab.StartBridge], and all of it is gone when the program has ended, however it
// ended. It needs root, or else a user namespace in which it is root; where both are
// forbidden the error is [ErrNoNamespace].
func RunOnNode(ctx context.Context, path string, args ...string) ([]byte, error) {
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	root := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}
	user := &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var refusals []error
	for _, attr := range []*syscall.SysProcAttr{root, user} {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append(os.Environ(), hostNetwork+"="+host)
		cmd.SysProcAttr = attr
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState != nil { // it has run
			return out, err
		}
		refusals = append(refusals, err)
	}
	return nil, fmt.Errorf("%w: as this user: %w; with a user namespace: %w", ErrNoNamespace, refusals[0], refusals[1])
}

// Bridge is the network of a node: Pods are plugged into it.
type Bridge struct {
	lab   *Lab
	link  *netlink.Bridge
	addrs []netip.Prefix
}

// links numbers network interfaces: a namespace may have several bridges.
var links atomic.Uint32

// StartBridge makes a bridge with these addresses, whose prefixes Pods share, in the
// network namespace of this process. It refuses to touch a namespace that
// [RunOnNode] did not make.
func (l *Lab) StartBridge(addrs ...netip.Prefix) (*Bridge, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	if host := os.Getenv(hostNetwork); host == "" || host == own {
		return nil, errors.New("this is the network namespace of the host; a bridge is made on a node alone")
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = fmt.Sprintf("bridge%d", links.Add(1))
	b := &Bridge{lab: l, link: &netlink.Bridge{LinkAttrs: attrs}, addrs: addrs}
	if err := netlink.LinkAdd(b.link); err != nil {
		return nil, fmt.Errorf("%w: a bridge: %w", ErrNoNamespace, err)
	}
	l.onClose(func() { _ = netlink.LinkDel(b.link) }) // with the namespace at the latest
	if err := errors.Join(up("lo"), addAddrs(b.link, addrs), netlink.LinkSetUp(b.link)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNamespace, err)
	}
	return b, nil
}

// PodNetwork is the network namespace of a Pod, with an interface that is plugged
// into a bridge.
type PodNetwork struct {
	namespace ns.NetNS
	link      netlink.Link // the bridge's end of the cable
}

// Plug makes a network namespace with one interface on the bridge, which has these
// addresses. The hardware address follows from the first of them: who gets the
// address next is reached at once, as behind a CNI that announces addresses.
func (b *Bridge) Plug(addrs ...netip.Prefix) (*PodNetwork, error) {
	namespace, err := ns.TempNetNS()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNamespace, err)
	}
	b.lab.onClose(func() { namespace.Close() })
	p := &PodNetwork{namespace: namespace}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = fmt.Sprintf("pod%d", links.Add(1)), b.link.Index
	bits := addrs[0].Addr().As16()
	p.link = &netlink.Veth{
		LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(namespace.Fd())),
		PeerHardwareAddr: net.HardwareAddr{2, 0, bits[12], bits[13], bits[14], bits[15]},
	}
	if err := netlink.LinkAdd(p.link); err != nil {
		return nil, err
	}
	b.lab.onClose(func() { _ = p.Unplug() }) // it may be unplugged
	err = p.Do(func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return errors.Join(up("lo"), addAddrs(eth0, addrs), netlink.LinkSetUp(eth0))
	})
	if err := errors.Join(err, netlink.LinkSetUp(p.link)); err != nil {
		return nil, err
	}
	for _, gateway := range b.addrs {
		if !slices.ContainsFunc(addrs, gateway.Masked().Overlaps) {
			continue
		}
		// Until a little later the kernel drops packets. An answer, by which a closed port
		// refuses, says that they arrive in both directions.
		if err := wait(context.Background(), nil, fmt.Sprintf("the Pod reaches %v", gateway.Addr()), 10*time.Second, func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			_, err := p.DialContext(ctx, "tcp", netip.AddrPortFrom(gateway.Addr(), 1).String())
			return errors.Is(err, syscall.ECONNREFUSED)
		}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Unplug takes the Pod's interface away at once. Its process lives on, and nobody is
// told: no FIN, no RST.
func (p *PodNetwork) Unplug() error { return netlink.LinkDel(p.link) }

// Do calls f in the Pod's namespace: sockets that f itself opens are the Pod's.
// Goroutines that f starts are not in it.
func (p *PodNetwork) Do(f func() error) error {
	return p.namespace.Do(func(ns.NetNS) error { return f() })
}

// DialContext connects from within the Pod to an <ip>:<port>.
func (p *PodNetwork) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = p.Do(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// AcceptAll makes the Pod take packets to every address of a prefix for its own,
// and the node send them there, by way of the Pod's address.
func (p *PodNetwork) AcceptAll(prefix netip.Prefix, by netip.Addr) error {
	err := p.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(prefix), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL})
	})
	return errors.Join(err, netlink.RouteAdd(&netlink.Route{Dst: ipNet(prefix), Gw: by.AsSlice()}))
}

// Settled reports whether everything that the Pod has sent is acknowledged. Until
// then an acknowledgement is under way, and whoever has the address next would reset
// the connection for that alone.
func (p *PodNetwork) Settled() (bool, error) {
	settled := true
	err := p.Do(func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			sockets, err := netlink.SocketDiagTCPInfo(family)
			if err != nil {
				return err
			}
			for _, s := range sockets {
				settled = settled && (s.TCPInfo == nil || s.TCPInfo.Unacked == 0)
			}
		}
		return nil
	})
	return settled, err
}

// Resets is how often the Pod's kernel has sent RST.
func (p *PodNetwork) Resets() (n int, err error) {
	err = p.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		var rows [][]string // names, and values in the same order
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); fields[0] == "Tcp:" {
				rows = append(rows, fields)
			}
		}
		if len(rows) != 2 || !slices.Contains(rows[0], "OutRsts") {
			return fmt.Errorf("/proc/net/snmp has no OutRsts:\n%s", text)
		}
		n, err = strconv.Atoi(rows[1][slices.Index(rows[0], "OutRsts")])
		return err
	})
	return n, err
}

// StartPod plugs a Pod in and starts its process there, on every address that it
// has. It ends with [Pod.Stop] or the lab.
func (b *Bridge) StartPod(name, uid string, addrs ...netip.Prefix) (*Pod, error) {
	network, err := b.Plug(addrs...)
	if err != nil {
		return nil, err
	}
	p := &Pod{Name: name, UID: uid, Addr: netip.AddrPortFrom(addrs[0].Addr(), ExecdPort), Network: network}
	var listener net.Listener
	err = network.Do(func() error {
		listener, err = net.Listen("tcp", fmt.Sprintf(":%d", ExecdPort))
		return err
	})
	if err != nil {
		return nil, err
	}
	b.lab.serve(p, listener, nil)
	return p, nil
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// addAddrs gives an interface addresses that can be used at once: IPv6 would look
// for duplicates for a second.
func addAddrs(link netlink.Link, addrs []netip.Prefix) error {
	for _, a := range addrs {
		address := &netlink.Addr{IPNet: ipNet(a)}
		if a.Addr().Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return fmt.Errorf("address %v: %w", a, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
