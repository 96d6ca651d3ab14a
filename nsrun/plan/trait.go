package plan

import "slices"

// Trait is one guarantee that policies rely on a backend for, and how far each backend gives it. `require` names guarantees.
type Trait struct {
	Name string
	// Promise is what holds, in words that can be put to the test; the contract suite does.
	Promise string
	// Without is what is the case where it does not hold at all.
	Without string
	// Backends says how far each backend gives it, in the order of [Backends].
	Backends [len(backends)]Cell
}

// Cell is one backend's part in a guarantee.
type Cell struct {
	Grade Grade
	// Loss is what is missing where Grade is Weaker; where it is Missing, and not more than Trait.Without, it is empty.
	Loss string
}

// Grade is how far a guarantee holds.
type Grade uint8

// The grades. The zero Grade is Missing: a backend gives nothing that the table does not say.
const (
	Missing Grade = iota // it does not hold
	Weaker               // it holds but for what Loss says
	Carried              // it holds
)

var backends = [...]string{BackendNative, BackendBwrap, BackendDocker, BackendLandlock, BackendNone}

// Backends lists the backends, the strongest first: the order of the ladder that fallback degrade goes down, which ends before none.
func Backends() []string { return backends[:] }

// LookupTrait finds a guarantee's row.
func LookupTrait(name string) (Trait, bool) {
	i := slices.IndexFunc(Traits[:], func(t Trait) bool { return t.Name == name })
	if i < 0 {
		return Trait{}, false
	}
	return Traits[i], true
}

// Loses lists the guarantees that a backend does not give in full, anywhere.
func Loses(backend string) (names []string) {
	at := slices.Index(backends[:], backend)
	for _, t := range Traits {
		if at < 0 || t.Backends[at].Grade != Carried {
			names = append(names, t.Name)
		}
	}
	return names
}

const inCallers = "the command is in the caller's user namespace, without a capability over it"

// Traits has one row for each guarantee. What a backend gives only on some hosts, or to some policies, is here as it is at best; Compile
// tells the rest.
var Traits = [...]Trait{
	{"sandbox", "some backend confines the command", "the command runs without a sandbox",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"files", "no file of the host can be read, written, made or removed but in what is granted", "all files of the caller's can be read and changed",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"view", "what is not granted is not there at all", "all files can be seen by name and size",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Missing, "what is not granted can be seen by name and size, watched, and, where it is the caller's own, changed in mode, owner, times and attributes"}, {}}},
	{"places", "files can be shown at other places, made for the sandbox alone, and kept read-only inside what is writable", "files are where the host has them",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}, {}}},
	{"private_tmp", "HOME, /tmp, /var/tmp, /dev/shm and /run are the sandbox's own: empty, writable, and gone afterwards", "HOME and /tmp are the host's",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Weaker, "HOME and TMPDIR name directories of the run's own at other places; at their own the host's home directory, /tmp, /var/tmp, /dev/shm and /run are out of reach, and the account file names that home directory"}, {}}},
	{"tmp_bounds", "the private file systems are bounded in size and number of files", "nothing bounds what is written to temporary directories",
		[...]Cell{{Grade: Carried}, {Weaker, "any number of files can be made there"}, {Grade: Carried}, {Missing, "nothing bounds what is written to HOME and TMPDIR: " + unbounded}, {}}},
	{"devices", "there are no devices but null, zero, full, random and urandom, and terminals of the sandbox's own", "all devices that the caller may open can be opened",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Weaker, "there are no terminals at all"}, {}}},
	{"device_modes", "modes of the host's devices cannot be changed", "a sandbox that root starts can change the modes of the host's /dev/null and its like",
		[...]Cell{{Grade: Carried}, {}, {Grade: Carried}, {}, {}}},
	{"processes", "no other process can be signalled, traced or looked into", "all processes of the caller's can be signalled and looked into",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"process_view", "no other process can be seen", "the host's processes and their command lines can be seen",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}, {}}},
	{"init", "pid 1 holds nothing and cannot be looked into", "there is no pid 1 of the sandbox's own",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"ownership", "the command's user namespace owns nothing", "the command is in the caller's user namespace, with the caller's capabilities",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Weaker, inCallers}, {Weaker, inCallers}, {}}},
	{"kill_tree", "whatever the command has started ends with it, and with nsrun, daemons included", "what has left the command's process group lives on",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"network", "with network none, nothing outside can be reached; with network allow, what the rules name", "the network is the host's",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"loopback", "with network none or allow, there is a loopback of the sandbox's own", "the loopback is the host's",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Missing, "there are no sockets of the internet families at all, not even on a loopback"}, {}}},
	{"unix_sockets", "no Unix socket outside of what is granted can be connected to, by path or by abstract name", "all sockets that the caller may connect to can be connected to",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"ipc", "shared memory, semaphores and message queues are the sandbox's own, or there are none", "those of the host are in reach",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"hostname", "the host's name cannot be seen", "the host's name can be seen",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}, {}}},
	{"identity", "ids and account files are the sandbox's own", "ids, groups and account files are the host's",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Weaker, "ids are the host's"}, {}, {}}},
	{"privileges", "no capability is left and none can be gained (no_new_privs)", "set-uid programs work",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"landlock", "Landlock confines files a second time, or alone", "no Landlock",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"seccomp", "system calls are filtered", "no filter",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"keyring", "the session keyring is the command's own", "the caller's keyrings are in reach",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {}}},
	{"environment", "of the caller's environment only what is named is passed", "the caller's environment is passed",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}}},
	{"descriptors", "no descriptor but 0, 1 and 2 is passed", "all descriptors are passed",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}}},
	{"limits", "the limits asked for hold", "some of the limits do not hold",
		[...]Cell{{Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}}},
	{"terminal", "--tty gives the command a terminal of its own", "there is no terminal of the command's own",
		[...]Cell{{Grade: Carried}, {}, {}, {}, {}}},
	{"status", "the signal that killed the command is reported", "only the exit code is reported, in which a signal is 128+n",
		[...]Cell{{Grade: Carried}, {}, {Grade: Carried}, {Grade: Carried}, {Grade: Carried}}},
}
