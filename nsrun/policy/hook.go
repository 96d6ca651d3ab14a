package policy

import (
	"slices"
	"strings"
)

// hooks are shapes of names, in upper case, and why: FE06 of the requirements. They stand by who reads them, in the words of the notes.
// A name that programs merely take a setting from is not here; what a whole family of programs reads is, where a part of it names code or files.
var hooks = []struct{ shapes, why string }{
	{"LD_* GCONV_PATH GLIBC_TUNABLES MALLOC_* LOCPATH NLSPATH GETCONF_DIR RES_OPTIONS HOSTALIASES LOCALDOMAIN RESOLV_* DYLD_*", "the loader and the C library act on it"},
	{"BASH_ENV ENV SHELLOPTS BASHOPTS BASH_FUNC_* PS4 PROMPT_COMMAND IFS CDPATH ZDOTDIR FPATH", "shells act on it"},
	{"PYTHON* VIRTUAL_ENV PIP_* UV_* PYTEST_* MYPY* PYENV_* RUFF_* COVERAGE_PROCESS_START COV_CORE_*", "Python's programs load what it names"},
	{"NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_REPL_* NODE_V8_COVERAGE NODE_COMPILE_CACHE NODE_REDIRECT_WARNINGS NPM_CONFIG_* YARN_* ELECTRON_RUN_AS_NODE DENO_* BUN_*", "Node's programs load what it names"},
	{"PERL* RUBYOPT RUBYLIB RUBYSHELL RUBYGEMS_* GEM_* RBENV_* BUNDLE_* BUNDLER_* RUBOCOP_* JRUBY_OPTS LUA_* LUAROCKS_* TCLLIBPATH PHPRC PHP_INI_SCAN_DIR R_PROFILE* R_ENVIRON* R_LIBS* GUILE_* EMACSLOADPATH ERL_*FLAGS ERL_LIBS JULIA_LOAD_PATH JULIA_DEPOT_PATH JULIA_PROJECT OCAMLPATH OCAMLLIB OCAMLRUNPARAM CAML_LD_LIBRARY_PATH", "interpreters load what it names"},
	{"JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS CLASSPATH MAVEN_* GRADLE_* ANT_* DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE CORECLR_* COR_*", "virtual machines load what it names"},
	{"GOFLAGS GOROOT GOENV GOTOOLCHAIN GOPROXY GOPRIVATE GONOPROXY GOSUMDB GONOSUMDB GONOSUMCHECK GOINSECURE GOTOOLDIR GOAUTH GOVCS GOCACHEPROG GOWORK GOPACKAGESDRIVER GCCGO CGO_* CARGO_* RUSTC RUSTC_* RUSTFLAGS RUSTDOC* RUSTUP_* MAKEFLAGS MAKEFILES GNUMAKEFLAGS MFLAGS CC CXX CPP LD AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CMAKE_* PKG_CONFIG* COMPILER_PATH GCC_EXEC_PREFIX LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH", "compilers and build tools act on it"},
	{"GIT_* GITHUB_ENV GITHUB_PATH HGRCPATH HG HGEDITOR SVN_* CVS_RSH RSYNC_RSH RSYNC_CONNECT_PROG", "version control runs, or writes to, what it names"},
	{"EDITOR VISUAL FCEDIT PAGER MANPAGER *_PAGER LESS LESSOPEN LESSCLOSE LESSKEY* LESSHISTFILE MORE BROWSER SHELL VIMINIT EXINIT VIM VIMRUNTIME TERMINFO TERMINFO_DIRS TERMCAP INPUTRC GNUPGHOME", "programs run, or read, what it names"},
	{"OPENSSL_* SSL_CERT_* SSLKEYLOGFILE CURL_CA_BUNDLE CURL_HOME REQUESTS_CA_BUNDLE WGETRC KRB5* GSS_*", "libraries load it, or trust what it names"},
	{"XDG_RUNTIME_DIR DOCKER_* CONTAINER_HOST PODMAN_* BUILDKIT_HOST WAYLAND_DISPLAY WAYLAND_SOCKET DISPLAY XAUTHORITY TMUX TMUX_PANE STY NOTIFY_SOCKET LISTEN_FDS LISTEN_PID LISTEN_FDNAMES PULSE_* PIPEWIRE_* SESSION_MANAGER VSCODE_IPC_* VSCODE_GIT_*", "it leads to a server of the host's"},
	{"PATH HOME PWD OLDPWD TMPDIR TMP TEMP XDG_*_HOME XDG_*_DIRS", "it names places of the host; the sandbox has its own"},
	{"QT_PLUGIN_PATH QT_QPA_* QML*_PATH GTK_PATH GTK_MODULES GTK*_MODULES GIO_* GSETTINGS_* GST_PLUGIN_* GDK_PIXBUF_* LIBGL_* MESA_* VK_* __EGL_* __GLX_* OCL_ICD_* ASAN_* LSAN_* MSAN_* TSAN_* UBSAN_*", "libraries load what it names, or write there"},
	{"ASDF_* MISE_* RTX_* NODENV_* GOENV_* RVM_* JENV_* SDKMAN_* VOLTA_* NVM_* FNM_* COREPACK_* TRUFFLERUBYOPT", "managers of versions choose programs by it"},
	{"NSRUN_*", "nsrun acts on it"},
}

// PlainEnv lists the variables that a request may set under the built-in command rules passive. No list of hooks is complete; of these it is known
// that they say how output looks, and choose no code. A trailing * matches any rest.
var PlainEnv = []string{"LANG", "LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY", "LC_MESSAGES", "LC_PAPER", "LC_NAME",
	"LC_ADDRESS", "LC_TELEPHONE", "LC_MEASUREMENT", "LC_IDENTIFICATION", "TZ", "TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR*", "CI"}

// PlainName reports whether a variable of that name is one of [PlainEnv].
func PlainName(name string) bool {
	return slices.ContainsFunc(PlainEnv, func(shape string) bool { return match(shape, name) })
}

// NamesFile reports whether a variable for a locale or the time zone has a path for a value: the C library takes absolute ones, and reads what is
// there (setlocale(3), tzset(3)).
func NamesFile(name, value string) bool {
	locale := name == "LANG" || name == "LANGUAGE" || name == "TZ" || strings.HasPrefix(name, "LC_")
	return locale && (strings.HasPrefix(value, "/") || strings.Contains(value, ":/") || strings.Contains("/"+value+"/", "/../"))
}
