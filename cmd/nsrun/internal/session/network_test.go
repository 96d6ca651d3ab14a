package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQuestionsOfANetwork(t *testing.T) {
	for answer, want := range map[string]string{
		`"allow":"once"`:    "{Allow:true Session:false Reason:}",
		`"allow":"session"`: "{Allow:true Session:true Reason:}",
		`"allow":"deny","reason":"the user said so"`: "{Allow:false Session:false Reason:the user said so}",
		`"session":"","allow":"deny"`:                "{Allow:false Session:false Reason:}",
	} {
		c := begin(t)
		assert.Contains(t, c.ask(`{"id":1,"op":"open","policy":{},"ask":"20s","refusals":true}`), `"ok":{"session":""`)
		c.send(`{"id":2,"op":"exec","args":["connect","example.com"]}`)
		assert.JSONEq(t, `{"session":"","refused":{"kind":"net","op":"connect","path":"example.com:443","rule":"network","count":1}}`, c.line())
		assert.JSONEq(t, `{"session":"","question":{"id":1,"name":"example.com","port":443,"rule":"example.com:443"}}`, c.line())
		c.send(`{"id":3,"op":"answer","question":1,` + answer + `}`)
		lines := c.line() + c.line() // in either order
		assert.Contains(t, lines, `{"id":3,"ok":{}}`)
		assert.Contains(t, lines, want)
		assert.Contains(t, c.ask(`{"id":4,"op":"answer","question":1,"allow":"once"}`), `no question 1 of the session`)
		assert.NoError(t, c.in.Close())
		assert.NoError(t, c.finish())
	}
}

// A client that does not ask for events gets none, and one that does not answer in time has refused.
func TestQuestionsThatNobodyHears(t *testing.T) {
	c := withSession(t)
	assert.NotContains(t, c.ask(`{"id":2,"op":"exec","args":["connect","example.com"]}`), "question")
	assert.Contains(t, c.ask(`{"id":3,"op":"open","session":"b","policy":{},"ask":0.05}`), `"ok"`)
	c.send(`{"id":4,"op":"exec","session":"b","args":["connect","example.com"]}`)
	assert.Contains(t, c.line(), `"question":{"id":1`)
	assert.Contains(t, c.line(), "nobody has answered within 50ms")
	// The end of the session is the end of its questions.
	assert.Contains(t, c.ask(`{"id":5,"op":"open","session":"c","policy":{},"ask":"1h"}`), `"ok"`)
	c.send(`{"id":6,"op":"exec","session":"c","args":["connect","example.com"]}`)
	assert.Contains(t, c.line(), `"question":{"id":1`)
	c.send(`{"id":7,"op":"close","session":"c","now":true}`)
	assert.Contains(t, c.line()+c.line(), `"closed":["c"]`)
}

// A close waits for a command whose question can still be answered.
func TestAQuestionOfASessionThatIsBeingClosed(t *testing.T) {
	c := begin(t)
	assert.Contains(t, c.ask(`{"id":1,"op":"open","policy":{},"ask":"1h"}`), `"ok"`)
	c.send(`{"id":2,"op":"exec","args":["connect","example.com"]}`)
	assert.Contains(t, c.line(), `"question":{"id":1`)
	c.send(`{"id":3,"op":"close"}`, `{"id":4,"op":"answer","question":1,"allow":"once"}`)
	lines := c.line() + c.line() + c.line()
	assert.Contains(t, lines, "{Allow:true")
	assert.Contains(t, lines, `"closed":[""]`)
	assert.Contains(t, lines, `{"id":4,"ok":{}}`)
}

func TestRulesOfANetwork(t *testing.T) {
	c := withSession(t)
	assert.Equal(t, `{"id":1,"ok":{"rules":["example.com:443","b.test"]}}`, c.ask(`{"id":1,"op":"allow","rules":["example.com:443","b.test"]}`))
	assert.Equal(t, `{"id":2,"ok":{"rules":[]}}`, c.ask(`{"id":2,"op":"allow","rules":[]}`))
	assert.Contains(t, c.ask(`{"id":3,"op":"allow","rules":["*"]}`), `"field":"rules[0]","fix":"name hosts"`)
	assert.Contains(t, c.ask(`{"id":4,"op":"allow","session":"b","rules":[]}`), `is not open`)
}
