// Package policy says what is wanted of a sandbox: a value without system calls, without knowledge of any host, complete.
//
// The zero Policy is the most closed one: nothing of the host is visible, nothing is writable, there is no network, no
// environment, the default seccomp filter and Landlock are on, and every wish is strict. Front ends (the manifest, the command
// line, Go programs) open it up; package plan decides how it is carried out on one host.
//
//	p := policy.Default("/home/me/project")
//	p.FS = append(p.FS, policy.FS{Kind: policy.Bind, Source: "/srv/data", Dest: "/srv/data"})
//	p, err := policy.Normalize(p, policy.Operator{}) // all faults, joined
//
// A Policy protects nothing: it is a wish. It cannot say whether a path exists, where a symlink leads, or what the kernel can
// enforce; plan, backend and facts do.
package policy
