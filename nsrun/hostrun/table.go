package hostrun

// Base is what the path of a row is relative to.
type Base string

// The bases.
const (
	Root     Base = "root"     // the root of a writable grant
	GitDir   Base = "git"      // a git directory: the root's .git, what a .git file in it names within the grant, and those of submodules
	Worktree Base = "worktree" // an entry of the directory worktrees in a git directory
)

// Form is how a place is compared. The empty Form is not compared.
type Form string

// The forms.
const (
	File      Form = "file"       // kind, content, and whether it is executable
	Tree      Form = "tree"       // the same for the entries of a directory, down to Row.Depth
	Hooks     Form = "hooks"      // the entries of a directory that git would run: executable, and no samples
	GitConfig Form = "git config" // the settings by which git runs programs
	CommonDir Form = "commondir"  // a file that names the main git directory, unless it is the usual one
	Todo      Form = "todo"       // the commands of a rebase that was interrupted
)

// Row is one place.
type Row struct {
	Base Base
	Path string
	// Mounted has it read-only by default, where it exists.
	Mounted bool
	// Compared is how it is looked at before a run and after it.
	Compared Form
	// Depth is how many levels of directories a Tree has. 0 is one.
	Depth int
	// Risky marks it in lists of changes.
	Risky bool
	// Why says what on the host acts on it, as the end of a sentence whose subject is the place.
	Why string
}

// Reasons that several rows have.
const (
	whyShell  = "shells on the host would run it"
	whyAgent  = "agents on the host would act on its commands and servers"
	whyEditor = "editors on the host would run its tasks and the programs that its settings name"
	whyHook   = "git on the host would run it"
	whyBuild  = "builds on the host run it"
)

// WhyGitDir is what becomes of a .git that was replaced: by a file or a symlink that names another repository.
const WhyGitDir = "git on the host would take the configuration and hooks of the repository that it names"

// Table has one row for each place.
var Table = []Row{
	{Base: GitDir, Path: "hooks", Mounted: true, Compared: Hooks, Risky: true, Why: whyHook},
	{Base: GitDir, Path: "config", Compared: GitConfig, Risky: true, Why: whyHook},
	{Base: GitDir, Path: "config.worktree", Compared: GitConfig, Risky: true, Why: whyHook},
	{Base: GitDir, Path: "commondir", Compared: File, Risky: true, Why: "git on the host would take the configuration and hooks of the directory that it names"},
	{Base: GitDir, Path: "rebase-merge/git-rebase-todo", Compared: Todo, Risky: true, Why: "git rebase --continue on the host would run it"},
	{Base: Worktree, Path: "commondir", Compared: CommonDir, Risky: true, Why: "git on the host would take the configuration and hooks of the directory that it names"},
	{Base: Worktree, Path: "config.worktree", Compared: GitConfig, Risky: true, Why: whyHook},

	{Base: Root, Path: ".gitmodules", Compared: GitConfig, Risky: true, Why: "git submodule on the host would act on it"},
	{Base: Root, Path: ".envrc", Compared: File, Risky: true, Why: "direnv on the host would run it"},
	{Base: Root, Path: ".vscode", Compared: Tree, Risky: true, Why: whyEditor},
	{Base: Root, Path: ".idea", Compared: Tree, Depth: 2, Risky: true, Why: whyEditor},
	{Base: Root, Path: ".zed", Compared: Tree, Risky: true, Why: whyEditor},
	{Base: Root, Path: ".devcontainer", Compared: Tree, Depth: 2, Risky: true, Why: whyEditor},
	{Base: Root, Path: ".devcontainer.json", Compared: File, Risky: true, Why: whyEditor},
	{Base: Root, Path: ".exrc", Compared: File, Risky: true, Why: "vi on the host can run it"},
	{Base: Root, Path: ".nvim.lua", Compared: File, Risky: true, Why: "Neovim on the host can run it"},
	{Base: Root, Path: ".claude", Compared: Tree, Depth: 3, Risky: true, Why: whyAgent},
	{Base: Root, Path: ".cursor", Compared: Tree, Depth: 2, Risky: true, Why: whyAgent},
	{Base: Root, Path: ".codex", Compared: Tree, Depth: 2, Risky: true, Why: whyAgent},
	{Base: Root, Path: ".gemini", Compared: Tree, Depth: 2, Risky: true, Why: whyAgent},
	{Base: Root, Path: ".mcp.json", Compared: File, Risky: true, Why: "agents on the host would start the servers that it names"},
	{Base: Root, Path: ".husky", Compared: Tree, Depth: 2, Risky: true, Why: "husky's git hooks on the host would run it"},
	{Base: Root, Path: ".github/workflows", Compared: Tree, Risky: true, Why: "the CI service would run it once it is pushed"},

	{Base: Root, Path: ".bashrc", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".bash_profile", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".bash_login", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".bash_logout", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".bash_aliases", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".profile", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".zshrc", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".zshenv", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".zprofile", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".zlogin", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".zlogout", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".kshrc", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".cshrc", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".tcshrc", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".login", Mounted: true, Compared: File, Risky: true, Why: whyShell},
	{Base: Root, Path: ".xprofile", Mounted: true, Compared: File, Risky: true, Why: "the login on the host would run it"},
	{Base: Root, Path: ".config/fish/config.fish", Mounted: true, Compared: File, Risky: true, Why: whyShell},

	{Base: Root, Path: ".gitattributes", Risky: true, Why: "git on the host runs the filters and drivers that it names, where a configuration has them"},
	{Base: Root, Path: ".pre-commit-config.yaml", Risky: true, Why: "pre-commit's git hook runs what it names"},
	{Base: Root, Path: "package.json", Risky: true, Why: "npm on the host runs its scripts"},
	{Base: Root, Path: "Makefile", Risky: true, Why: whyBuild},
	{Base: Root, Path: "build.rs", Risky: true, Why: whyBuild},
	{Base: Root, Path: "setup.py", Risky: true, Why: whyBuild},
	{Base: Root, Path: "conftest.py", Risky: true, Why: "pytest on the host runs it"},
	{Base: Root, Path: "*.pth", Risky: true, Why: "Python on the host runs its import lines"},
}

// Rows returns the rows of a base that are compared.
func Rows(base Base) (rows []Row) {
	for _, r := range Table {
		if r.Base == base && r.Compared != "" {
			rows = append(rows, r)
		}
	}
	return rows
}
