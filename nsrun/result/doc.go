// Package result says how a run ended, as plain data: the verdict in one word, figures, and a receipt of what was on. The file of
// nsrun run --result, the answers of nsrun session and the rows of audit logs are made of it.
//
//	var failed *nsrun.ExitError
//	if errors.As(err, &failed) && failed.Result.Verdict == result.Timeout { ... }
package result
