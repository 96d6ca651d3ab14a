// Package result says how a run ended, as plain data: the verdict in one word, figures such as times and memory, and a receipt, which lists
// the protection that was really on. The file of nsrun run --result and the answers of nsrun session are a [Result], and the rows of audit
// logs are made from one.
//
//	var failed *nsrun.ExitError
//	if errors.As(err, &failed) && failed.Result.Verdict == result.Timeout { ... }
//
// A Result protects nothing, and is not signed: a program that can write its file can change it.
package result
