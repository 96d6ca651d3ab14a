// Package plan decides: from what is wanted (a policy) and what a host can do (facts) to what will be done, written down in full.
//
// A [Plan] is plain data. It prints as text for people and as JSON; the JSON is all that a backend is given. Compile makes no
// system call and never looks at the file system, so a plan for another host, or for ten Landlock ABIs, can be made anywhere.
// What only mounting can tell (is it there, is it a file) stands in the operations as an expectation.
//
//	p, err := plan.Compile(plan.Request{Policy: pol, Command: []string{"python3", "x.py"}, Environ: os.Environ()}, facts)
//	var refused *plan.CompatibilityError // lists every unmet requirement with its fix
//
// Every loss is a Note of the plan; there is no code path that drops a wish without one. A plan by itself protects nothing.
package plan
