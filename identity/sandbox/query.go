package sandbox

// Query is one question to the API server: for the objects of a name, or else for those
// that have a label with this value.
type Query struct {
	Name         string
	Label, Value string
}
