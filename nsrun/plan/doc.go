// Package plan decides how a policy is carried out on one host. It takes a policy (what is wanted) and facts (what the host can do), and
// returns a [Plan]: in full what will be done.
//
//	p, err := plan.Compile(plan.Request{Policy: pol, Command: []string{"python3", "x.py"}, Environ: os.Environ()}, facts)
//	var refused *plan.CompatibilityError // from errors.As: lists every requirement that the host does not meet, with its fix
//
// The policy is one that policy.Normalize has returned. A Plan is plain data, and prints as text and as JSON. Compile makes no system call
// and never looks at the file system, so a plan for another host, or for another Landlock ABI, can be made anywhere. What Compile cannot know
// (does a source exist, is it a directory) stands in the mount operations as a condition, which is checked when the sandbox is made.
//
// What is wanted and cannot be had is never dropped in silence: it is an error, or, if the policy permits that, a [Note] in the plan. A plan
// by itself protects nothing: package backend carries it out.
package plan
