package opensandbox

import "github.com/samepod/samepod/identity/sandbox"

// DecodePool says what a Pool means. A Pool that does not say how it recycles deletes
// (pool_types.go); one that says what nobody knows, or cannot be understood, is
// [sandbox.RecycleUnknown].
func DecodePool(object map[string]any) sandbox.Pool {
	o := sandbox.Read(object)
	name, uid := o.Identity()
	p := sandbox.Pool{NamespacedName: name, UID: uid}
	switch sandbox.Field[string](o, "spec", "recycleStrategy", "type") {
	case "", "Delete":
		p.Recycle = sandbox.RecycleDelete
	case "Restart":
		p.Recycle = sandbox.RecycleRestart
	case "Noop":
		p.Recycle = sandbox.RecycleNoop
	}
	if o.Fault() != "" {
		p.Recycle = sandbox.RecycleUnknown
	}
	return p
}
