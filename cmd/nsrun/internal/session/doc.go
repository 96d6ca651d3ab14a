// Package session is the conversation of the verb nsrun session: requests, one JSON object a line, are carried out concurrently in
// sandboxes that stay open, and answered in any order. nsrun help session documents it, and [Schema] is its JSON Schema.
//
//	err := session.Serve(ctx, os.Stdin, os.Stdout, nil, host, "1.0")
//
// Lines are read strictly: what is misspelt, given twice or of another type is answered by an error and never guessed at. A line is
// answered exactly once, whatever it holds. What the requests mean is up to a [Host]: this package knows no kernel, and its tests none
// but a fake one.
//
// A client that does not read its answers stops its own commands, and costs no memory beyond what it has in flight and what was collected for
// it, which are bounded. When its input ends, the requests before that are answered first. When its output can no longer be written to, all ends
// at once. [Serve] returns when every session is closed.
//
// What this package does not protect against: whoever writes the requests decides what is run, and within the operator's ceiling under
// which policy. It is the caller of the sandboxes, not one who is confined by them: nobody in a sandbox may get hold of the descriptors.
package session
