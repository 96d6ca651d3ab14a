// Package explain tests that nsrun run --explain is right. There is nothing in it to import.
//
// Real programs are run unsandboxed under strace, in the sandbox under strace, and in the sandbox with --explain: a refusal is a call that succeeds
// outside and fails inside, and the reports must be exactly these. A hostile program tries to make reports cost time or memory, or change an
// answer. Each change that a report offers is made, and the same act must succeed then.
package explain
