// Package session speaks the protocol of the command nsrun session. A client writes requests, one JSON object a line. They are carried out at
// the same time in sandboxes that stay open, and answered in any order. nsrun help session documents the protocol, and [Schema] is its JSON
// Schema.
//
//	err := session.Serve(ctx, os.Stdin, os.Stdout, nil, host, "1.0") // host makes the sandboxes; "1.0" is nsrun's version
//
// Lines are read strictly: what is misspelt, given twice or of another type is answered by an error and never guessed at. A line is
// answered exactly once, whatever it holds. What the requests do is up to a [Host]: this package makes no sandbox itself, and its tests use a
// fake one.
//
// A client that does not read its answers stops its own commands. The memory for its requests and for output that was collected is bounded.
// When the input ends, the requests before that are answered first. When the output can no longer be written to, all ends at once. [Serve]
// returns when every session is closed.
//
// What this package does not protect against: the client that writes the requests decides what is run and, within the operator's ceiling, under
// which policy. The client is the caller of the sandboxes and is not confined by them: no process in a sandbox may get hold of the descriptors.
package session
