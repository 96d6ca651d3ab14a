package audit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRedact(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123"
	for _, c := range []struct{ in, want string }{
		{"make|-j4|test", "make|-j4|test"},
		{"x|--token|SECRET|y", "x|--token|[redacted]|y"},
		{"x|--password|-begins-with-a-dash", "x|--password|[redacted]"},
		{"x|--api-key|SECRET", "x|--api-key|[redacted]"},
		{"x|--apikey=SECRET", "x|--apikey=[redacted]"},
		{"x|--password=SECRET", "x|--password=[redacted]"},
		{"x|--client-secret|SECRET", "x|--client-secret|[redacted]"},
		{"x|-token|SECRET", "x|-token|[redacted]"},
		{"env|GH_TOKEN=SECRET|FOO=bar|go", "env|GH_TOKEN=[redacted]|FOO=bar|go"},
		{"env|OPENAI_API_KEY=SECRET with blanks", "env|OPENAI_API_KEY=[redacted]"},
		{"x|--password=ab&cdSECRET|y", "x|--password=[redacted]|y"}, {"x|-password=a;b{c}?SECRET", "x|-password=[redacted]"},
		{"x|--password='a' SECRET", "x|--password=[redacted]"}, {"env|PASSWORD=correct horse SECRET|x", "env|PASSWORD=[redacted]|x"},
		{"sh|-c|TOKEN=SECRET cmd arg", "sh|-c|TOKEN=[redacted]"}, {"x|--db.password=a(SECRET)", "x|--db.password=[redacted]"},
		{"sh|-c|PASSWORD='correct horse SECRET' x", "sh|-c|PASSWORD='[redacted]' x"}, {"sh|-c|x; PASSWORD=\"a \\\" SECRET\" y", "sh|-c|x; PASSWORD=\"[redacted]\" y"},
		{"sh|-c|x --token 'a SECRET'; y", "sh|-c|x --token '[redacted]'; y"}, {"sh|-c|x PASSWORD='a'\\''SECRET b' y", "sh|-c|x PASSWORD='[redacted]' y"},
		{"sh|-c|x PASSWORD=$'a SECRET' y", "sh|-c|x PASSWORD=$'[redacted]' y"}, {"sh|-c|x PASSWORD=a\\ SECRET y", "sh|-c|x PASSWORD=[redacted] y"},
		{"sh|-c|x PASSWORD='a SECRET", "sh|-c|x PASSWORD='[redacted]"}, {"sh|-c|x PASSWORD='' y", "sh|-c|x PASSWORD='' y"},
		{"sh|-c|echo \"use --token\" SECRET; y", "sh|-c|echo \"use --token\" [redacted]; y"}, {`x|["--token","a SECRET","y"]`, `x|["--token","[redacted]","y"]`},
		{"sh|-c|DB_PASSWORD='SECRET' run --token SECRET2 -v", "sh|-c|DB_PASSWORD='[redacted]' run --token [redacted] -v"},
		{"curl|-H|Authorization: Bearer SECRET", "curl|-H|Authorization: Bearer [redacted]"},
		{"curl|-H|authorization: SECRET", "curl|-H|authorization: [redacted]"},
		{"sh|-c|curl -H 'Authorization: Basic SECRET' x", "sh|-c|curl -H 'Authorization: Basic [redacted]' x"},
		{"curl|-HAuthorization:Bearer SECRET", "curl|-HAuthorization:Bearer [redacted]"},
		{"curl|-H|X-Api-Key: SECRET", "curl|-H|X-Api-Key: [redacted]"},
		{"curl|-H|Cookie: a=SECRET; b=SECRET", "curl|-H|Cookie: [redacted]; [redacted]"},
		{"curl|-u|me:SECRET", "curl|-u|me:[redacted]"},
		{"git|clone|https://me:SECRET@example.org/x.git", "git|clone|https://me:[redacted]@example.org/x.git"},
		{"git|clone|https://SECRET@example.org/x@v2", "git|clone|https://[redacted]@example.org/x@v2"},
		{"npm|i|https://example.org/@scope/x", "npm|i|https://example.org/@scope/x"},
		{"curl|https://example.org/?access_token=SECRET&b=1", "curl|https://example.org/?access_token=[redacted]&b=1"},
		{`curl|-d|{"user":"me","password":"SECRET","apiKey": "SECRET"}`, `curl|-d|{"user":"me","password":"[redacted]","apiKey": "[redacted]"}`},
		{`curl|-d|{"password":"a SECRET","b": "c d"}`, `curl|-d|{"password":"[redacted]","b": "c d"}`}, {`x|{"password": "a \" SECRET"}`, `x|{"password": "[redacted]"}`},
		{`sh|-c|curl -d "{\"password\":\"a SECRET\",\"b\":\"c\"}" z`, `sh|-c|curl -d "{\"password\":\"[redacted]\",\"b\":\"c\"}" z`},
		{"x|postgres://u:p#SECRET@h/d", "x|postgres://u:[redacted]@h/d"}, {"x|postgres://u:p/SECRET@h/d", "x|postgres://u:[redacted]@h/d"}, {"x|postgres://u:p?SECRET@h/d", "x|postgres://u:[redacted]@h/d"},
		{"x|postgres://u:12#SECRET@h", "x|postgres://u:[redacted]@h"}, {"x|postgres://u:p@ss/SECRET@h/d", "x|postgres://u:[redacted]@h/d"}, {"x|redis://:p#SECRET@h", "x|redis://:[redacted]@h"},
		{"sh|-c|x 'https://u:p#SECRET@h' me@y https://h/z", "sh|-c|x 'https://u:[redacted]@h' me@y https://h/z"}, {"x|https://me@corp.org:SECRET@h/x", "x|https://me@corp.org:[redacted]@h/x"},
		{"x|https://h/path@v1", "x|https://h/path@v1"}, {"x|https://h:8080/a@b", "x|https://h:8080/a@b"}, {"x|https://h/a:b@c", "x|https://h/a:b@c"}, {"x|https://h?a:b@c", "x|https://h?a:b@c"},
		{"x|http://a:9200,http://u:p#SECRET@b:9200", "x|http://a:9200,http://u:[redacted]@b:9200"}, {"x|mongodb://u:SECRET@a:1,b:2/?x=c@d", "x|mongodb://u:[redacted]@d"},
		{"pip|git+https://u:SECRET@example.org:8443/x@v2", "pip|git+https://u:[redacted]@example.org:8443/x@v2"}, {"x|https://SECRET@h:80/a@b", "x|https://[redacted]@h:80/a@b"},
		{"x|sk-abcdef123456", "x|[redacted]"}, {"x|ghp_abcd1234", "x|[redacted]"}, {"x|gho_abcd1234", "x|[redacted]"},
		{"x|github_pat_abcd1234", "x|[redacted]"}, {"x|xoxb-1234-abcd", "x|[redacted]"}, {"x|AKIAIOSFODNN7EXAMPLE", "x|[redacted]"},
		{"x|AIzaSyA1234567890abcdef", "x|[redacted]"}, {"x|glpat-abcd1234", "x|[redacted]"}, {"x|hf_abcdefgh1234", "x|[redacted]"},
		{"x|" + jwt, "x|[redacted]"}, {"x|key:" + jwt + ",rest", "x|key:[redacted],rest"}, {"x|--with=sk-abcdef123456", "x|--with=[redacted]"},
		{"x|task-abcdef123456|risk-free-lunch", "x|task-abcdef123456|risk-free-lunch"},
		{"curl|-H|Authorization: SSWS SECRET", "curl|-H|Authorization: [redacted] [redacted]"}, {"sh|-c|curl -H 'Authorization: AWS4 a=b, Signature=SECRET' x", "sh|-c|curl -H 'Authorization: [redacted] [redacted], [redacted]' x"},
		{`x|Authorization: Digest user="me", response="SECRET"`, `x|Authorization: Digest [redacted]"[redacted]", [redacted]"[redacted]"`},
		{`sh|-c|curl -H 'Authorization: Digest a="b SECRET"' x "y"`, `sh|-c|curl -H 'Authorization: Digest [redacted]"[redacted] [redacted]"' x "y"`},
		{`sh|-c|curl -H "Authorization: Digest a=\"SECRET\"" x`, `sh|-c|curl -H "Authorization: Digest [redacted]"[redacted]"" x`},
		{"kubectl|--from-literal=password=SECRET", "kubectl|--from-literal=password=[redacted]"}, {"x|--env=DB_PASSWORD=SECRET|--set=a.password=SECRET", "x|--env=DB_PASSWORD=[redacted]|--set=a.password=[redacted]"},
		{"x|--header=X-Api-Key:SECRET", "x|--header=X-Api-Key:[redacted]"}, {"x|--image=registry:5000/my-token:latest", "x|--image=registry:5000/my-token:latest"},
		{"sh|-c|x --password=ab,SECRET y", "sh|-c|x --password=[redacted] y"}, {"sh|-c|x PASSWORD=ab\\&SECRET y", "sh|-c|x PASSWORD=[redacted] y"}, {"x|X-Api-Key: ab,SECRET", "x|X-Api-Key: [redacted]"},
		{"x|{token: SECRET, user: me}", "x|{token: [redacted], user: me}"}, {"sh|-c|x; TOKEN=a?b{SECRET} && y", "sh|-c|x; TOKEN=[redacted]} && y"},
		{"x|os.environ[\"API_KEY\"]=\"a SECRET\"", "x|os.environ[\"API_KEY\"]=\"[redacted]\""}, {"sh|-c|x TOKEN := SECRET", "sh|-c|x TOKEN := [redacted]"}, {"sh|-c|x; TOKEN:=\"a SECRET\"", "sh|-c|x; TOKEN:=\"[redacted]\""},
		{"sh|-c|x; MY_TOKEN+=SECRET", "sh|-c|x; MY_TOKEN+=[redacted]"}, {`x|{"password":["a SECRET"]}`, `x|{"password":["[redacted]}`},
		{"x|--token", "x|--token"}, {"x|TOKEN=", "x|TOKEN="}, {"", ""},
		{"x|--token|\xffSECRET\xfe", "x|--token|[redacted]"},
	} {
		got, n := Redact(strings.Split(c.in, "|"))
		assert.Equal(t, c.want, strings.Join(got, "|"), c.in)
		assert.Equal(t, strings.Count(c.want, Redacted), n, c.in)
	}
}
