package policy

import (
	"path"
	"slices"
	"strings"
)

// BaseEnv lists the variables that every sandbox takes from its caller: locale, terminal and time zone.
var BaseEnv = []string{"LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES", "TZ",
	// Those of locale(7), one by one: a secret, too, can be called LC_something.
	"LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY", "LC_MESSAGES", "LC_PAPER", "LC_NAME",
	"LC_ADDRESS", "LC_TELEPHONE", "LC_MEASUREMENT", "LC_IDENTIFICATION"}

// DefaultPath is PATH inside, unless the policy sets another.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// secretShapes are the names that are never passed from the caller, even when listed: B8 of the requirements. They are matched
// in upper case; * matches any text.
var secretShapes = []string{
	"*_KEY", "*_TOKEN", "*_SECRET", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS", "*_CREDENTIALS", "*_CREDENTIAL", "*_CREDS", "*_APIKEY", "*_PAT",
	"*_PRIVATE_KEY*", "*_ACCESS_KEY*", "*PRIVATEKEY*", "*SECRETKEY*", "*ACCESSKEY*", "*ACCESSTOKEN*", "*AUTHTOKEN*", "*BEARER*", "*_JWT", "*_OTP",
	"*_SECRETS", "SECRET_*", "*_SECRET_*", "*_DSN", "*_WEBHOOK_URL", "*_CONNECTION_STRING", "*_AUTH", "*_COOKIE", "*_COOKIES",
	"API_KEY*", "APIKEY", "TOKEN", "SECRET", "SECRETS", "PASS", "PGPASS", "CREDS", "CREDENTIAL", "CREDENTIALS", "COOKIE", "COOKIES", "JWT", "OTP", "TOTP", "DATABASE_URL", "*_DATABASE_URL", "REDIS_URL", "MONGO_URL", "MONGODB_URI",
	"AMQP_URL", "PGPASSFILE", "MYSQL_PWD", "NETRC", "KUBECONFIG", "GH_PAT", "GITHUB_PAT", "GH_TOKEN", "GPG_*", "SSH_*", "AWS_*",
	"STRIPE_*", "AZURE_*", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_API_*", "GCP_*", "GCLOUD_*", "OPENAI_*", "ANTHROPIC_*",
	"HF_*", "HUGGINGFACE_*", "COHERE_*", "MISTRAL_*", "GROQ_*", "GEMINI_*", "REPLICATE_*", "TWILIO_*", "SENDGRID_*", "MAILGUN_*",
	"SLACK_*", "DISCORD_*", "DIGITALOCEAN_*", "CLOUDFLARE_*", "CF_API_*", "HEROKU_*", "NPM_CONFIG_*AUTH*", "NODE_AUTH_*", "VAULT_*",
	"DOCKER_AUTH_CONFIG", "CI_JOB_JWT*", "ACTIONS_ID_TOKEN_*", "ACTIONS_RUNTIME_*", "DBUS_SESSION_BUS_ADDRESS",
}

// SecretName reports whether a variable of that name is taken for a secret.
func SecretName(name string) bool {
	upper := strings.ToUpper(name)
	return slices.ContainsFunc(secretShapes, func(shape string) bool { return match(shape, upper) })
}

// Hook says why a variable of that name is taken for a hook: what it holds makes programs load or run something else, or leads out. Such
// variables are passed only where they are named, not with the rest of an environment.
func Hook(name string) (why string, ok bool) {
	upper := strings.ToUpper(name) // some readers do not tell
	for _, h := range hooks {
		for shape := range strings.FieldsSeq(h.shapes) {
			if match(shape, upper) {
				return h.why, true
			}
		}
	}
	return "", false
}

// match is path.Match without its classes: * matches any text, and names hold no slash.
func match(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// BaseName reports whether a variable of that name is one of [BaseEnv].
func BaseName(name string) bool {
	return slices.Contains(BaseEnv, name)
}

// RelativePathEntry says which directory of a PATH is a different one wherever a program happens to be: a relative or empty entry.
func RelativePathEntry(value string) (entry string, relative bool) {
	for dir := range strings.SplitSeq(value, ":") {
		if !strings.HasPrefix(dir, "/") {
			return dir, true
		}
	}
	return "", false
}

// ValidEnvName reports whether name can be a variable's name: not empty, no = and no NUL.
func ValidEnvName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// Environ builds the environment from the caller's, given as NAME=value strings. It returns NAME=value strings, sorted, and the names of what was
// asked for and dropped, by the reason: a hook that only All asks for by that of [Hook], and what looks like a secret, in any case, by "".
func (e Env) Environ(caller []string, base []Var) (environ []string, dropped map[string][]string) {
	value := map[string]string{}
	dropped = map[string][]string{}
	for _, v := range base {
		value[v.Name] = v.Value
	}
	for _, entry := range caller {
		name, v, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue
		}
		listed := slices.Contains(e.Pass, name)
		asked := listed || e.All
		if asked && SecretName(name) {
			dropped[""] = append(dropped[""], name)
			continue
		}
		if e.All && !listed { // there is no need to ask about others, and it takes its time
			if why, hook := Hook(name); hook {
				dropped[why] = append(dropped[why], name)
				continue
			}
		}
		if asked || BaseName(name) {
			value[name] = v
		}
	}
	for _, v := range e.Set {
		value[v.Name] = v.Value
	}
	for name, v := range value {
		environ = append(environ, name+"="+v)
	}
	slices.Sort(environ)
	for why, names := range dropped {
		slices.Sort(names)
		dropped[why] = slices.Compact(names)
	}
	return environ, dropped
}
