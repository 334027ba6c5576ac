package identity

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Holder is a Pod as one who holds an address.
type Holder struct {
	NamespacedName
	UID UID
}

// Index knows every Pod by namespace and name, and every address by the Pods
// that hold it. The uid is a value, not a key: a Pod that is deleted and built
// again under its name may arrive as one update (client-go's SharedInformer
// contract), and an index by uid would then keep the dead one.
//
// Order is promised per object only, so "new Pod added" may come before "old Pod
// gone" on one address. Two live holders of an address is therefore a normal
// state, and a reason to deny both, not an error.
//
// Make one with [NewIndex], write through [Index.NewFeed]. All methods may be
// called concurrently.
type Index struct {
	mu      sync.RWMutex
	pods    map[NamespacedName]entry
	holders map[netip.Addr][]*Pod // live holders; no empty slices
	owned   map[ownerKey][]*Pod   // Pods by their controller; no empty slices
	nodes   map[netip.Addr]int    // node addresses, by how many Pods report them
	shared  int                   // addresses with more than one live holder
	feeds   []*Feed
	synced  chan struct{} // closed when every feed is
	history *history
	bell    Bell
}

// ownerKey is a controller of Pods. It is in their namespace (Kubernetes has no other
// owners): who may make Pods elsewhere can write any uid into theirs.
type ownerKey struct {
	namespace string
	uid       UID
}

// entry is a Pod and the feed that it came from; the zero entry is no Pod.
type entry struct {
	pod  *Pod
	feed *Feed
}

// NewIndex makes an empty Index. It stays [NotSynced] until it has a feed and
// every feed is synced.
func NewIndex(c HistoryConfig) *Index {
	return &Index{
		pods:    map[NamespacedName]entry{},
		holders: map[netip.Addr][]*Pod{},
		owned:   map[ownerKey][]*Pod{},
		nodes:   map[netip.Addr]int{},
		synced:  make(chan struct{}),
		history: newHistory(c),
	}
}

// View is everything the Index knows that bears on one claim, at one moment. It
// holds no pointer into the Index; it is a value to decide upon.
type View struct {
	// Freshness says whether the rest may be believed, Feed and Age which source
	// decides that and how old its word is.
	Freshness Freshness
	Feed      string
	Age       time.Duration

	// Found says that a Pod has the name; Pod is that Pod.
	Found bool
	Pod   Pod

	// Addr is the address that the claim is about: the recorded one where the
	// claim has one, else the Pod's primary address, else invalid.
	Addr netip.Addr
	// Holds says that Addr is among the Pod's addresses.
	Holds bool
	// Node says that Addr is the address of a node.
	Node bool
	// Others is how many live Pods besides Pod hold Addr; Other is one of them.
	// It is for logs: a caller learns nothing about a stranger's Pod.
	Others int
	Other  Holder
}

// Look reads the View of a claim on the Pod with this name and, if recorded is
// valid, on this address. It does not allocate.
func (x *Index) Look(name NamespacedName, recorded netip.Addr) View {
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.view(x.pods[name].pod, recorded, now)
}

// LookOwned reads the View of the one Pod that the object of this namespace and uid
// controls. live is how many it controls that have not ended and are not being deleted:
// with more than one, none of them is meant. With none, the View is of one that is on its
// way out, if there is one, to say so. It does not allocate.
func (x *Index) LookOwned(namespace string, owner UID, recorded netip.Addr) (v View, live int) {
	now := time.Now()
	x.mu.RLock()
	defer x.mu.RUnlock()
	var target *Pod
	for _, p := range x.owned[ownerKey{namespace, owner}] {
		alive := !p.Terminal() && !p.Terminating
		if alive {
			live++
		}
		if target == nil || alive || live == 0 && p.Terminating && !target.Terminating {
			target = p
		}
	}
	return x.view(target, recorded, now), live
}

// view must be called with mu held.
func (x *Index) view(target *Pod, recorded netip.Addr, now time.Time) View {
	worst := x.freshness(now)
	v := View{Freshness: worst.Freshness, Feed: worst.Name, Age: worst.Age, Addr: recorded}
	if target != nil {
		v.Found = true
		v.Pod = *target
		if !recorded.IsValid() {
			v.Addr = target.primary()
		}
		v.Holds = slices.Contains(target.IPs, v.Addr)
	}
	v.Node = x.nodes[v.Addr] > 0
	for _, p := range x.holders[v.Addr] {
		if p != target {
			v.Others++
			v.Other = Holder{p.NamespacedName, p.UID}
		}
	}
	return v
}

// set makes next what the Index has under name, and at the time of the change.
// It must be called with mu held.
func (x *Index) set(name NamespacedName, next entry, at time.Time) {
	prev := x.pods[name].pod
	if prev != nil {
		x.forget(prev, next.pod, at)
	}
	if next.pod == nil {
		delete(x.pods, name)
		return
	}
	x.pods[name] = next
	x.learn(prev, next.pod, at)
}

// forget takes prev out of the maps of addresses. An address that next keeps
// holding as the same Pod does not end its tenure.
func (x *Index) forget(prev, next *Pod, at time.Time) {
	if owner := prev.owner(); owner.uid != "" {
		list := x.owned[owner]
		if list = slices.DeleteFunc(list, func(p *Pod) bool { return p == prev }); len(list) == 0 {
			delete(x.owned, owner)
		} else {
			x.owned[owner] = list
		}
	}
	for addr := range prev.nodeAddrs() {
		if x.nodes[addr]--; x.nodes[addr] == 0 {
			delete(x.nodes, addr)
		}
	}
	if !prev.holds() {
		return
	}
	for _, addr := range prev.IPs {
		list := x.holders[addr]
		i := slices.Index(list, prev)
		if i < 0 {
			continue // the Pod lists the address twice
		}
		if len(list) == 2 {
			x.shared--
		}
		if list = slices.Delete(list, i, i+1); len(list) == 0 {
			delete(x.holders, addr)
		} else {
			x.holders[addr] = list
		}
		if !sameHolder(prev, next, addr) {
			x.history.end(addr, Holder{prev.NamespacedName, prev.UID}, at)
		}
	}
}

// learn is the other half of forget.
func (x *Index) learn(prev, next *Pod, at time.Time) {
	if owner := next.owner(); owner.uid != "" {
		x.owned[owner] = append(x.owned[owner], next)
	}
	for addr := range next.nodeAddrs() {
		x.nodes[addr]++
	}
	if !next.holds() {
		return
	}
	for _, addr := range next.IPs {
		list := x.holders[addr]
		if slices.Contains(list, next) {
			continue
		}
		if len(list) == 1 {
			x.shared++
		}
		x.holders[addr] = append(list, next)
		if !sameHolder(next, prev, addr) {
			x.history.begin(addr, Holder{next.NamespacedName, next.UID}, at)
		}
	}
}

// sameHolder reports whether other is the same Pod as p and holds addr too.
func sameHolder(p, other *Pod, addr netip.Addr) bool {
	return other != nil && other.UID == p.UID && other.holds() && slices.Contains(other.IPs, addr)
}

// Shared returns the addresses that more than one live Pod holds, with those who
// do: every claim on them is denied.
func (x *Index) Shared() map[netip.Addr][]Holder {
	x.mu.RLock()
	defer x.mu.RUnlock()
	shared := make(map[netip.Addr][]Holder, x.shared)
	for addr, list := range x.holders {
		if len(list) < 2 {
			continue
		}
		for _, p := range list {
			shared[addr] = append(shared[addr], Holder{p.NamespacedName, p.UID})
		}
	}
	return shared
}

// Ring wakes who waits for a change; a source of what belongs to the Pods rings it too.
func (x *Index) Ring() { x.bell.Ring() }

// Changed is closed with the next change of the Index. Ask for it first, then look.
func (x *Index) Changed() <-chan struct{} { return x.bell.Next() }

// Size says how much the Index holds.
type Size struct {
	Pods      int
	Addresses int // held by at least one live Pod
	Shared    int // held by more than one: every claim on them is denied
}

// Size returns the present size.
func (x *Index) Size() Size {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Size{Pods: len(x.pods), Addresses: len(x.holders), Shared: x.shared}
}

// Holders returns the live Pods that hold an address, in no order.
func (x *Index) Holders(addr netip.Addr) []Pod {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []Pod
	for _, p := range x.holders[addr] {
		all = append(all, *p)
	}
	return all
}
