package manifest

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// meants is the table of keys that people write, and those that they mean. names and keys are separated by spaces; in says of which record,
// by its what. Those of "limits" are in policy.LimitTable; outside of it a key of "limits" is "limits.timeout".
var meants = [...]struct{ in, names, keys string }{
	{"a manifest", "env environ environment envs env_vars envvars variables vars", "pass_env set_env"},
	{"a manifest", "inherit_env keep_env allow_env env_allow passthrough_env env_passthrough forward_env", "pass_env"},
	{"a manifest", "readonly read_only ro read reads readable allow_read read_paths readonly_paths ro_paths ro_dirs ro_bind bind_ro mount_ro inputs", "extra_ro"},
	{"a manifest", "rw write writes writable writeable read_write readwrite allow_write write_paths writable_paths rw_paths rw_dirs bind_rw mount_rw outputs", "extra_rw"},
	{"a manifest", "bind binds mount volume volumes bind_mounts", "mounts extra_ro extra_rw"},
	{"a manifest", "paths files dirs directories fs filesystem", "extra_ro extra_rw"},
	{"a manifest", "cwd workdir work_dir working_dir working_directory dir directory", "chdir"},
	{"a manifest", "net networking internet allow_network network_access hosts allow_hosts allowed_hosts domains allowed_domains", "network"},
	{"a manifest", "permissions permission grants allow caps", "capabilities"},
	{"a manifest", "syscalls seccomp_profile seccomp_filter seccomp_deny", "seccomp"},
	{"a manifest", "script main program entry entrypoint", "code"},
	{"a manifest", "user", "uid"},
	{"a manifest", "group", "gid"},
	{"a manifest", "host_name", "hostname"},
	{"a manifest", "engine runtime driver", "backend"},
	{"a manifest", "degrade", "fallback"},
	{"a manifest", "profile profiles rules allowed_commands", "commands command_rules"},
	{"a manifest", "log audit_log", "audit"},
	{"a manifest", "title id", "name"},

	{"a capability", "type family name", "kind"},
	{"a capability", "access action", "mode"},
	{"a capability", "path paths file files hint", "hints"},
	{"a mount", "source src host path", "from"},
	{"a mount", "dest dst target destination at inside", "to"},
	{"a mount", "rw writable", "write"},
	{"a mount", "noexec executable", "exec"},
	{"a mount", "force_rw insist", "force"},
	{"seccomp", "name profile default", "filter"},
	{"seccomp", "block blocked denied syscalls", "deny"},
	{"seccomp", "bpf file", "raw"},
	{"a set of command rules", "base inherits inherit from parent", "extends"},
	{"a set of command rules", "commands allow rules program", "programs"},
	{"a ceiling", "read ro readonly read_only extra_ro", "fs_read"},
	{"a ceiling", "write rw writable extra_rw shared_dirs workspace", "fs_write"},
	{"a ceiling", "env environment set_env", "pass_env"},
	{"a ceiling", "profile profiles command_rules", "commands"},
}

// commandKeys are keys for what is not in a manifest.
const commandKeys = " command cmd args argv arguments exec run "

// namedKey is a key of a record, and what it means.
type namedKey struct{ name, help string }

// unknown adds the fault of a key that a record does not have, with the key that was meant. The list of all keys is in the first such
// fault of each kind of record.
func (d *decoder) unknown(m member, key, what string, known func() []namedKey) {
	if d.full() {
		return
	}
	all := known()
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.name
	}
	fix := "see the other message on " + what + " for the keys that are known"
	near, ok := policy.Nearest(m.name, names)
	keys := meantBy(what, m.name)
	switch {
	case len(keys) == 1:
		fix = "did you mean " + keys[0] + "?"
	case len(keys) > 1:
		fix = "did you mean " + explained(keys, append(all, limitsForm().dotted()...)) + "?"
	case what == "a manifest" && strings.Contains(commandKeys, " "+m.name+" "):
		fix = "remove it, and write the command after --: nsrun run --manifest FILE -- COMMAND"
	case ok:
		fix = "did you mean " + near + "?"
	case !slices.Contains(d.listed, what):
		d.listed = append(d.listed, what)
		fix = "known are " + strings.Join(names, ", ")
	}
	d.add(m.at, dotted(key, m.name), what+" has no such key", fix)
}

// explained lists keys, each with what it is for.
func explained(keys []string, known []namedKey) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		j := slices.IndexFunc(known, func(k namedKey) bool { return k.name == key })
		help, _, _ := strings.Cut(known[j].help, ";")
		parts[i] = key + ", " + help
	}
	return strings.Join(parts, ", or ")
}

// dotted lists the keys of "limits" as they are called outside of it.
func (r record[T]) dotted() []namedKey {
	all := r.named()
	for i := range all {
		all[i].name = r.what + "." + all[i].name
	}
	return all
}

// meantBy finds the keys that a record, which its what names, has for what somebody calls name.
func meantBy(what, name string) (keys []string) {
	if what == "limits" {
		return policy.LimitsMeantBy(name)
	}
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, m := range meants {
		if m.in == what && slices.Contains(strings.Fields(m.names), name) {
			return strings.Fields(m.keys)
		}
	}
	switch {
	case what != "a manifest" && what != "a ceiling":
		return nil
	case slices.Contains(limitsForm().names(), name):
		return []string{"limits." + name}
	}
	keys = policy.LimitsMeantBy(name)
	for i := range keys {
		keys[i] = "limits." + keys[i]
	}
	return keys
}
