package runner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnswersOfAProgram(t *testing.T) {
	for text, want := range map[string]Answer{
		"once":                    {Allow: true},
		"once\n":                  {Allow: true},
		"session\r\n":             {Allow: true, Session: true},
		"deny it is not ours\n":   {Reason: "it is not ours"},
		"deny\n\n  \n":            {},
		"session because I say\n": {Allow: true, Session: true, Reason: "because I say"},
	} {
		got, err := parseAnswer(text)
		assert.NoError(t, err, "%q", text)
		assert.Equal(t, want, got, "%q", text)
	}
	for _, text := range []string{"", "\n", "Once", "once\nsession\n", " once", "once\tx", "allow", "onceonce", "deny\nonce"} {
		got, err := parseAnswer(text)
		assert.Error(t, err, "%q", text)
		assert.False(t, got.Allow, "%q", text)
	}
	assert.Equal(t, "it was not allowed when nsrun asked", reasonOf(Answer{}))
	assert.Equal(t, "a b", reasonOf(Answer{Reason: "a\nb\n"}))
	assert.Empty(t, reasonOf(Answer{Allow: true}))
}

// TestAHelperThatLies about its question: nobody is asked, as a rule of the session's would outlive the helper.
func TestAHelperThatLies(t *testing.T) {
	for _, q := range []netmessage.Question{
		{Name: "a.example", Port: 443, Rule: "a.example:443"},
		{Name: "a.example", Port: 443, Rule: "https://a.example"},
		{Address: "192.0.2.1", Port: 22, Rule: "192.0.2.1:22"},
		{Address: "2001:db8::1", Port: 22, Rule: "[2001:db8::1]:22"},
	} {
		got, ok := questionOf(q)
		assert.True(t, ok, q)
		assert.Equal(t, Question{q.Name, q.Address, q.Port, q.Rule}, got)
	}
	for _, q := range []netmessage.Question{
		{},
		{Name: "a.example", Port: 443, Rule: "*.example.com"},
		{Name: "a.example", Port: 443, Rule: "b.example:443"},
		{Name: "a.example", Port: 443, Rule: "a.example"},
		{Name: "a.example", Port: 443, Rule: "a.example:1-65535"},
		{Name: "a.example", Port: 443, Rule: "a.example:443+force"},
		{Name: "a.example", Port: 443, Rule: "udp://a.example:443"},
		{Name: "a.example", Port: 443 + 1<<16, Rule: "a.example:443"},
		{Name: "a.example\n", Port: 443, Rule: "a.example:443"},
		{Name: "a.example", Address: "192.0.2.1", Port: 443, Rule: "192.0.2.1:443"},
		{Address: "192.0.2.1", Port: 22, Rule: "192.0.2.0/24:22"},
		{Address: "192.0.2.1", Port: 22, Rule: "a.example:22"},
	} {
		_, ok := questionOf(q)
		assert.False(t, ok, q)
	}
}

// TestAHelperThatFloods has no more asked at once than one that does not.
func TestAHelperThatFloods(t *testing.T) {
	event := netmessage.Event{Question: &netmessage.Question{Name: "a.example", Port: 443, Rule: "a.example:443"}}
	order := func(netmessage.Order) bool { return true }
	s, calls, free := Session{}, make(chan struct{}, 10*maxAsked), make(chan struct{})
	s.allowlist.answer = func(Question) Answer { calls <- struct{}{}; <-free; return Answer{} }
	for range 10 * maxAsked {
		s.heard(event, order)
	}
	testenv.Eventually(t, func() bool { return len(calls) >= maxAsked }, "calls")
	assert.Equal(t, maxAsked, s.allowlist.asked)
	close(free)
	testenv.Eventually(t, func() bool {
		s.allowlist.mu.Lock()
		defer s.allowlist.mu.Unlock()
		return s.allowlist.asked == 0
	}, "the end of all calls")
	assert.Len(t, calls, maxAsked)

	dir := t.TempDir()
	program := filepath.Join(dir, "answer")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho >>"+dir+"/asked\nexec sleep 100\n"), 0o755))
	o, end := AskBy(program, program, time.Minute, nil)
	for range 10 * maxAsked {
		o.Heard(event, order)
	}
	asked := func() int { data, _ := os.ReadFile(dir + "/asked"); return bytes.Count(data, []byte("\n")) }
	testenv.Eventually(t, func() bool { return asked() >= maxAsked }, "the programs")
	end()
	assert.Equal(t, maxAsked, asked())
}

// TestRulesThatAreTooMany are refused, and the next sandbox does not have them either.
func TestRulesThatAreTooMany(t *testing.T) {
	s := Session{plan: &plan.Plan{Allow: &plan.Allow{Rules: []string{"a.example:443"}, Step: plan.StepRedirect}}, closed: true}
	var rules []string
	for i := range 4000 {
		rules = append(rules, fmt.Sprintf("%d.example", i))
	}
	var fault *policy.Fault
	require.ErrorAs(t, s.setRules(rules), &fault)
	assert.Contains(t, fault.Text, "bytes")
	assert.Equal(t, []string{"a.example:443"}, s.Allow())
}
