package session

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// request is one line, decoded. Which fields an op takes is in [ops].
type request struct {
	id        id
	op        string
	does      op
	given     map[string]bool // the fields that there are
	session   string
	manifest  string
	policy    json.RawMessage
	dir       string
	args      []string
	shell     string
	stdin     []byte
	env       variables
	labels    labels
	cwd       string
	timeout   time.Duration
	maxOutput int64
	fresh     bool
	terminal  *runner.Size
	stream    bool
	encoding  string
	receipt   bool
	explain   string
	ask       time.Duration
	refusals  bool
	rules     []string
	question  int64
	allow     string
	reason    string
	of        id
	data      []byte
	eof       bool
	signal    unix.Signal
	path      string
	access    string
	now       bool
}

// field is where a field goes; what it may be follows from the type.
type field struct {
	name string
	into any
}

func (r *request) fields() []field {
	return []field{{"id", &r.id}, {"op", &r.op}, {"session", &r.session}, {"manifest", &r.manifest}, {"policy", &r.policy}, {"dir", &r.dir},
		{"args", &r.args}, {"shell", &r.shell}, {"stdin", &r.stdin}, {"env", &r.env}, {"labels", &r.labels}, {"cwd", &r.cwd}, {"timeout", &r.timeout},
		{"max_output", &r.maxOutput}, {"fresh", &r.fresh}, {"terminal", &r.terminal}, {"stream", &r.stream}, {"encoding", &r.encoding},
		{"receipt", &r.receipt}, {"explain", &r.explain}, {"of", &r.of}, {"data", &r.data}, {"eof", &r.eof}, {"signal", &r.signal}, {"path", &r.path},
		{"access", &r.access}, {"now", &r.now}, {"ask", &r.ask}, {"refusals", &r.refusals}, {"rules", &r.rules}, {"question", &r.question},
		{"allow", &r.allow}, {"reason", &r.reason}}
}

// op is one thing that can be asked for: the fields that it takes beside id and op, those among them that it needs, and how it is carried out.
type op struct {
	name, takes, needs string
	counts             kind
	prepare            prepare
}

// prepare looks up what a request refers to and returns what is to be done. It is called for one line after the other.
type prepare func(s *server, c *call, req *request) (act, *Error)

// act carries a request out. It returns what is answered.
type act func() (any, *Error)

var allOps struct {
	sync.Once
	rows []op
}

func ops() []op {
	allOps.Do(func() {
		allOps.rows = []op{
			{"open", "session manifest policy dir ask refusals", "", work, (*server).prepareOpen},
			{"exec", "session args shell stdin env labels cwd timeout max_output fresh terminal stream encoding receipt explain", "", work, inSession((*server).exec)},
			{"start", "session args shell env labels cwd terminal encoding explain", "", work, (*server).prepareStart},
			{"write", "of data eof", "of", work, (*server).prepareWrite},
			{"signal", "of signal", "of signal", control, ofProcess(func(p *process, req *request) (any, *Error) { return done(p.proc.Signal(req.signal)) })},
			{"resize", "of terminal", "of terminal", control, ofProcess(func(p *process, req *request) (any, *Error) { return done(p.proc.Resize(*req.terminal)) })},
			{"wait", "of receipt", "of", waiting, (*server).prepareWait},
			{"cancel", "of", "of", control, (*server).prepareCancel},
			{"resolve", "session path access", "path", work, inSession((*server).resolve)},
			{"allow", "session rules", "rules", work, inSession((*server).setRules)},
			{"answer", "session question allow reason", "question allow", control, (*server).prepareAnswer},
			{"close", "session now", "", control, (*server).prepareClose},
			{"ping", "", "", control, (*server).preparePing},
		}
	})
	return allOps.rows
}

// decode reads a line. With an error it returns as much of the request as its answer needs: the id, if there is one.
func decode(line []byte) (*request, *Error) {
	r := &request{given: map[string]bool{}}
	all, fault := entries(line)
	for _, m := range all {
		if m.name != "id" || fault != nil && (fault.Field == "id" || badText(m.value) != nil) {
			continue
		}
		if fault := r.id.read("id", m.value); fault != nil {
			return r, fault
		}
	}
	if fault != nil {
		return r, fault
	}
	if r.id == "" {
		return r, protocolError("id", "give a string or an integer of your choice", "the request has none")
	}
	o, fault := opOf(all)
	if fault != nil {
		return r, fault
	}
	if fault := r.fill(o, all); fault != nil {
		return r, fault
	}
	r.does = o
	return r, r.check()
}

func opOf(all []member) (op, *Error) {
	names, word := []string{}, ""
	for _, o := range ops() {
		names = append(names, o.name)
	}
	i := slices.IndexFunc(all, func(m member) bool { return m.name == "op" })
	if i < 0 {
		return op{}, protocolError("op", meant("", names), "the request has none")
	}
	if fault := text("op", all[i].value, &word); fault != nil {
		return op{}, fault
	}
	if i := slices.Index(names, word); i >= 0 {
		return ops()[i], nil
	}
	return op{}, protocolError("op", meant(word, names), "%q is not an op", clip(word))
}

// meant names the word that was probably meant, or all that are known.
func meant(word string, known []string) string {
	if near, ok := policy.Nearest(word, known); ok {
		return "did you mean " + near + "?"
	}
	return "known are " + strings.Join(known, ", ")
}

// fill decodes the fields of a request, which must be ones that its op takes.
func (r *request) fill(o op, all []member) *Error {
	takes := append([]string{"id", "op"}, strings.Fields(o.takes)...)
	fields := r.fields()
	for _, m := range all {
		if !slices.Contains(takes, m.name) {
			return protocolError(clip(m.name), meant(m.name, takes), "%s takes no such field", o.name)
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.name })
		r.given[m.name] = true
		if fault := read(m.name, m.value, fields[i].into); fault != nil {
			return fault
		}
	}
	return nil
}

// check finds what is missing, and values that do not go together.
func (r *request) check() *Error {
	has := r.given
	for _, name := range strings.Fields(r.does.needs) {
		if !has[name] {
			return protocolError(name, "add it", "%s needs it", r.op)
		}
	}
	switch {
	case r.op == "open" && has["manifest"] == has["policy"]:
		return protocolError("manifest", `give one of manifest and policy; {"policy": {}} is the default policy`, "open takes the path of a manifest, or a policy")
	case has["dir"] && !has["policy"]:
		return protocolError("dir", "remove it", "relative paths of a manifest start from its own directory")
	case (r.op == "exec" || r.op == "start") && has["args"] == has["shell"]:
		return protocolError("args", `give one of args, as in ["ls", "-la"], and shell`, "%s takes a list of arguments, or a script for a shell", r.op)
	case has["args"] && (len(r.args) == 0 || r.args[0] == ""):
		return protocolError("args", "name a program", "there is no program in it")
	case has["max_output"] && r.stream:
		return protocolError("max_output", "remove one of max_output and stream", "a stream is passed on as it comes, all of it")
	case r.maxOutput > MaxLine:
		return protocolError("max_output", "use stream for more", "at most %d bytes of output are collected", MaxLine)
	case has["explain"] && !slices.Contains(policy.Explains, policy.Explain(r.explain)):
		return protocolError("explain", "write off, on or all, or leave it out", "%q is not a level", clip(r.explain))
	case has["encoding"] && r.encoding != "base64":
		return protocolError("encoding", "write base64, or leave it out", "%q is not an encoding", clip(r.encoding))
	case has["allow"] && !slices.Contains([]string{runner.AnswerOnce, runner.AnswerSession, runner.AnswerDeny}, r.allow):
		return protocolError("allow", "write once, session or deny", "%q is no answer", clip(r.allow))
	case has["access"] && r.access != "read" && r.access != "write":
		return protocolError("access", "write read or write", "%q is not an access", clip(r.access))
	case r.op == "write" && !has["data"] && !r.eof:
		return protocolError("data", "add data, or eof, or both", "there is nothing to write")
	}
	return nil
}

// argv is what is to be executed.
func (r *request) argv() []string {
	if r.given["shell"] {
		return runner.Shell(r.shell)
	}
	return r.args
}

// options are those that commands and processes have alike.
func (r *request) options() runner.ExecOptions {
	return runner.ExecOptions{Dir: r.cwd, Env: r.env, Labels: r.labels, Terminal: r.terminal, Explain: policy.Explain(r.explain)}
}

// base64 says that output is to be encoded whatever it is.
func (r *request) base64() bool { return r.encoding == "base64" }
