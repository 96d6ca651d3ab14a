// Package policy says what is wanted of a sandbox. A [Policy] is a complete value, made without system calls and without knowledge of any host.
//
// The zero Policy grants least: no file of the host is visible, nothing is writable, there is no network, the default seccomp filter and
// Landlock are on, and the run is refused on a host that cannot enforce all of it. Of the environment the command gets only [BaseEnv] (locale,
// terminal, time zone) and what every sandbox has, such as PATH. [Default] adds the system directories, without which few programs start. The
// manifest, the command line and Go programs add what they need.
//
//	p := policy.Default("/home/me").Grant("/srv/data", false, "the input") // home is empty inside; /srv/data is read-only
//	p, err := policy.Normalize(p, policy.Operator{})                       // all faults, joined
//
// [Normalize] also cuts a policy to what the operator permits, by ceilings: see [Ceiling]. Package plan then decides how the policy is carried
// out on one host.
//
// A Policy protects nothing: it only says what is wanted. It cannot say whether a path exists, where a symlink leads, or what the kernel can
// enforce; the packages plan, backend and facts do.
package policy
