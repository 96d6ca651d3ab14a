// Package denial answers the listener of a command's seccomp filter, and finds out what was refused to the command.
//
//	w := denial.Start(listener, denial.Config{Plan: p, Filters: joined, Home: home})
//	denials, how := w.Finish() // when the command has ended
//
// A call that the filters refuse is failed with their errno; every other one goes on at once, and is looked up afterwards: the same path in the
// sandbox and, if nothing is there, on the host. What is there on the host alone is refused by the view.
//
// The package opens nothing but for looking (O_PATH), follows no link on the host from one file system to another without looking at what that is,
// and does not go where a look can take long, such as FUSE and NFS.
//
// It does not protect against a command that makes a report wrong: the command can change a path after it was read, and remove what was
// looked for. A report never changes what is refused.
package denial
