package result

// ProtectedChange is one thing in a writable grant that makes a program of the host run something, and that the command has made or changed.
type ProtectedChange struct {
	// Path is the file on the host.
	Path string `json:"path"`
	// What is the change in words: "new file", "core.fsmonitor is new".
	What string `json:"what"`
	// Why is what on the host acts on it.
	Why string `json:"why"`
	// Reverted says that it was put back.
	Reverted bool `json:"reverted,omitempty"`
	// NotReverted says why it was not, though that was asked for.
	NotReverted string `json:"not_reverted,omitempty"`
}

// String gives the change for people.
func (c ProtectedChange) String() string {
	text := c.Path + ": " + c.What + ": " + c.Why
	switch {
	case c.Reverted:
		text += "; put back"
	case c.NotReverted != "":
		text += "; not put back: " + c.NotReverted
	}
	return text
}
