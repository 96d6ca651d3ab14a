package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/netmessage"
)

// Words of an answer to a [Question], and what they mean.
const (
	AnswerOnce    = "once"    // the connections that wait
	AnswerSession = "session" // and later ones, by a rule
	AnswerDeny    = "deny"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 10

// AskBy has a program of the host answer for a run what no rule of its network allows, within wait. It is started without arguments for each question, several
// at once, gets the question as a line of JSON, and answers by one line: once, session or deny, and a reason after a blank. Anything else denies. file is where
// program really is, without symlinks, which a sandbox could change meanwhile. most are the rules of an operator's ceiling; nil without one. end ends what is
// still running, and returns when it has ended.
func AskBy(program, file string, wait time.Duration, most []string) (o backend.NetworkOptions, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	room := make(chan struct{}, maxAsked)
	o.Ask = &netmessage.Asking{MS: max(wait.Milliseconds(), 1), Most: most, All: most == nil}
	o.Heard = func(e netmessage.Event, order func(netmessage.Order) bool) {
		if e.Question == nil || ctx.Err() != nil {
			return
		}
		q, ok := questionOf(*e.Question)
		if !ok {
			return
		}
		select {
		case room <- struct{}{}:
		default: // it is refused when its time is up
			return
		}
		running.Go(func() {
			defer func() { <-room }()
			a := askProgram(ctx, program, file, wait, q)
			answer := netmessage.Order{Answer: &netmessage.Answer{Serial: e.Question.Serial, Allow: a.Allow, Reason: reasonOf(a)}}
			if a.Allow && a.Session {
				answer.Add = []string{q.Rule}
			}
			order(answer)
		})
	}
	return o, func() { cancel(); running.Wait() }
}

// reasonOf is the reason of a refusal in one line.
func reasonOf(a Answer) string {
	if reason := backend.Plain(a.Reason); reason != "" || a.Allow {
		return reason
	}
	return "it was not allowed when nsrun asked"
}

func askProgram(ctx context.Context, program, file string, wait time.Duration, q Question) Answer {
	line, err := json.Marshal(q)
	if err != nil {
		return Answer{Reason: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, file)
	cmd.Args[0] = program // by which a program of several names knows which one is meant
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(line, '\n')), &shortOutput{&out, maxAnswer}, os.Stderr
	cmd.WaitDelay = time.Second // what it has left may hold its output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return Answer{Reason: program + " has not answered within " + wait.String()}
		}
		return Answer{Reason: program + ": " + err.Error()}
	}
	a, err := parseAnswer(out.String())
	if err != nil {
		return Answer{Reason: program + ": " + err.Error()}
	}
	return a
}

// parseAnswer reads a line such as "deny it is not ours".
func parseAnswer(text string) (a Answer, err error) {
	line, rest, _ := strings.Cut(text, "\n")
	word, reason, _ := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
	if strings.TrimSpace(rest) != "" {
		return a, errors.New("it has answered with more than one line")
	}
	switch word {
	case AnswerOnce:
		return Answer{Allow: true, Reason: reason}, nil
	case AnswerSession:
		return Answer{Allow: true, Session: true, Reason: reason}, nil
	case AnswerDeny:
		return Answer{Reason: reason}, nil
	}
	return a, fmt.Errorf("its answer %q is none of once, session and deny", word)
}

// shortOutput takes no more than so many bytes.
type shortOutput struct {
	to   *bytes.Buffer
	left int
}

func (l *shortOutput) Write(b []byte) (int, error) {
	if len(b) > l.left {
		return 0, errors.New("its answer is too long")
	}
	l.left -= len(b)
	return l.to.Write(b)
}
