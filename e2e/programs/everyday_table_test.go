package programs

// everyday is a program that people use, doing its usual job in a project, offline. run is a script of a shell, which a sandbox runs twice.
type everyday struct {
	name, group string
	packages    string            // Debian's that have it
	files       map[string]string // the project
	prepare     string            // what the user has done on the host before
	run         string
	prints      string // what has to be in the output
	tool        string // the preset that it needs
	landlock    string // why it is refused by the backend landlock, as its output says; empty if it works
	cause       string // what --explain reports where it is refused, and what would allow that, as an expression
	in          string // the workspace, where it is a directory of the project
	copies      bool   // its preset needs copies of the host's directories, which the backend native alone makes: by others they start empty
	around      string // a command of the user's, with an SSH agent, before nsrun is run with that agent
	fast        bool   // it is in the fast tier, too
}

const helloC = "#include <stdio.h>\nint main(void) { puts(\"hello from C\"); return 0; }\n"

// everydays is the table: what works in the default policy, as the command's own output tells.
func everydays() []everyday {
	return append([]everyday{
		{name: "git commit", group: "git", cause: `\.gitconfig": the host has it, the sandbox does not.*; allow it with --ro `, packages: "git", tool: "git", fast: true, prepare: "git config --global user.name Ann; git config --global user.email ann@example.com",
			run: "d=r$(date +%N); git init -q $d; cd $d; echo a >a; git add a; git commit -qm one; echo b >>a; git commit -qam two; git commit -q --amend -m three; git log --format=%s", prints: "three\none"},
		{name: "git clone", group: "git", packages: "git", prepare: "git init -q src; cd src; echo a >a; git add a; git -c user.name=a -c user.email=a@b commit -qm one",
			run: "d=copy$(date +%N); git clone -q src $d; git -C $d log --format=%s", prints: "one"},
		{name: "git worktree", group: "git", packages: "git", prepare: "git init -q .; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one",
			run: "git worktree add -q wt; git -C wt status --short; git worktree remove wt; git branch -qD wt; git worktree list | wc -l", prints: "1"},
		{name: "git rebase", group: "git", cause: `\.gitconfig": the host has it, the sandbox does not.*; allow it with --ro `, packages: "git", tool: "git", prepare: "git config --global user.name Ann; git config --global user.email ann@example.com",
			run:    "d=r$(date +%N); git init -q $d; cd $d; git commit -q --allow-empty -m base; git checkout -qb topic; echo t >t; git add t; git commit -qm topic; git checkout -q -; echo m >m; git add m; git commit -qm main; git checkout -q topic; git rebase -q -; git log --format=%s",
			prints: "topic\nmain\nbase"},
		{name: "git stash", group: "git", packages: "git", prepare: "git config --global user.name Ann; git config --global user.email ann@example.com; git init -q .; echo a >a; git add a; git commit -qm one",
			run: "echo b >a; echo new >n; git stash -q -u; cat a; git stash pop -q; cat a n; git checkout -q a; rm n", prints: "a\nb\nnew"},
		{name: "git push", group: "git", packages: "git", prepare: "git config --global user.name Ann; git config --global user.email ann@example.com; git init -q --bare far.git; git init -q .; git commit -q --allow-empty -m one; git remote add far far.git",
			run: "git push -q -u far HEAD; git ls-remote far | wc -l", prints: "2"},
		{name: "git submodule", group: "git", cause: `\.gitconfig": the host has it, the sandbox does not.*; allow it with --ro `, packages: "git", tool: "git", prepare: "git config --global user.name Ann; git config --global user.email ann@example.com; git init -q sub; git -C sub commit -q --allow-empty -m one",
			run: "d=top$(date +%N); git init -q $d; cd $d; git -c protocol.file.allow=always submodule add -q ../sub s; git commit -qm s; git submodule status | wc -l", prints: "1"},
		{name: "git, a worktree's submodule", group: "git", cause: `/\.git/worktrees/wt/modules/s.*the host has it, the sandbox does not`, packages: "git", tool: "git", in: "wt/s",
			prepare: "git config --global user.name Ann; git config --global user.email ann@example.com; git config --global protocol.file.allow always; git init -q sub; git -C sub commit -q --allow-empty -m one; git init -q top; cd top; git submodule -q add ../sub s; git commit -qm s; git worktree add -q ../wt; cd ../wt; git submodule -q update --init",
			run:     "git commit -q --allow-empty -m two; git log --format=%s -1; git status --short | wc -l", prints: "two\n0"},

		{name: "python venv", group: "Python", packages: "python3-venv", run: "rm -rf v; python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'", prints: "True"},
		{name: "pip install, from a directory", group: "Python", packages: "python3-venv python3-pip", files: map[string]string{"p/setup.py": "from setuptools import setup\nsetup(name='p', version='1', py_modules=['p'])\n", "p/p.py": "print('p is here')\n"},
			run: "rm -rf v; python3 -m venv --system-site-packages v; v/bin/pip install -q --no-build-isolation --no-index ./p; v/bin/python -m p", prints: "p is here"},
		{name: "pytest", group: "Python", packages: "python3-pytest", fast: true, files: map[string]string{"test_p.py": "import subprocess\n\ndef test_runs(tmp_path):\n    f = tmp_path / 'f'\n    f.write_text('#!/bin/sh\\necho ran\\n')\n    f.chmod(0o755)\n    assert subprocess.check_output([str(f)]) == b'ran\\n'\n"},
			run: "pytest-3 -q", prints: "1 passed"},
		{name: "multiprocessing", group: "Python", cause: `"/dev/shm/`, packages: "python3", landlock: "Permission denied", run: "python3 -c 'import multiprocessing as m; print(sum(m.Pool(2).map(abs, [1, -2, 3])))'", prints: "6"},
		{name: "http.server and urllib", group: "Python", cause: `"AF_INET6?": .*; allow it with --net host`, packages: "python3", landlock: "Operation not permitted",
			run: "python3 -m http.server 8123 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8123/\").status)' && break; done", prints: "200"},
		{name: "sqlite3 module", group: "Python", packages: "python3", fast: true, run: "rm -f d; python3 -c 'import sqlite3; c = sqlite3.connect(\"d\"); c.execute(\"create table t(a)\"); c.execute(\"insert into t values(42)\"); c.commit(); print(c.execute(\"select a from t\").fetchone())'", prints: "(42,)"},

		{name: "node", group: "Node.js", packages: "nodejs", run: "node -e 'require(\"fs\").writeFileSync(\"f\", \"x\"); console.log(require(\"os\").homedir(), [1,2].map(x => x*2))'", prints: "[ 2, 4 ]"},
		{name: "a server of node's", group: "Node.js", cause: `"AF_INET6?": .*; allow it with --net host`, packages: "nodejs", landlock: "EPERM", fast: true,
			run: "node -e 'const h = require(\"http\"); const s = h.createServer((q, r) => r.end(\"served\")).listen(0, \"127.0.0.1\", () => h.get({port: s.address().port}, r => r.on(\"data\", d => { console.log(String(d)); s.close() })))'", prints: "served"},
		{name: "npm run", group: "Node.js", packages: "npm", files: map[string]string{"package.json": `{"name": "p", "version": "1.0.0", "scripts": {"test": "node -e 'console.log(40+2)'"}}`}, run: "npm test --silent", prints: "42"},
		{name: "npm pack and install", group: "Node.js", packages: "npm", files: map[string]string{"lib/package.json": `{"name": "lib", "version": "1.0.0"}`, "lib/index.js": "module.exports = 7", "package.json": `{"name": "p", "version": "1.0.0"}`},
			run: "rm -rf node_modules; npm pack --silent ./lib >/dev/null; npm install --silent --no-audit --no-save ./lib-1.0.0.tgz; node -p 'require(\"lib\")'", prints: "7"},
		{name: "npx", group: "Node.js", packages: "npm", files: map[string]string{"package.json": `{"name": "p", "version": "1.0.0", "bin": {"p": "p.js"}}`, "p.js": "#!/usr/bin/env node\nconsole.log('npx ran')\n"},
			run: "rm -rf node_modules; chmod +x p.js; mkdir -p node_modules/.bin; ln -s ../../p.js node_modules/.bin/p; npx --no p", prints: "npx ran"},

		{name: "go run and vet", group: "Go", files: map[string]string{"go.mod": "module p\n\ngo 1.19\n", "p.go": "package main\n\nfunc main() { println(\"hello from Go\") }\n"}, run: "go vet . && go run .", prints: "hello from Go"},
		{name: "gofmt", group: "Go", files: map[string]string{"p.go": "package  p\n"}, run: "gofmt -l p.go", prints: "p.go"},
		{name: "cargo test", group: "Rust", packages: "cargo", files: map[string]string{"Cargo.toml": "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": "#[test]\nfn two() { assert_eq!(1 + 1, 2) }\n"}, run: "cargo test -q", prints: "1 passed"},
		{name: "rustc", group: "Rust", packages: "rustc", files: map[string]string{"p.rs": "fn main() { println!(\"hello from Rust\") }\n"}, run: "rustc p.rs && ./p", prints: "hello from Rust"},

		{name: "gcc", group: "C", packages: "gcc libc6-dev", fast: true, files: map[string]string{"p.c": helloC}, run: "gcc -O2 -o p p.c && ./p", prints: "hello from C"},
		{name: "g++", group: "C", packages: "g++", files: map[string]string{"p.cc": "#include <iostream>\nint main() { std::cout << \"hello from C++\\n\"; }\n"}, run: "g++ -o p p.cc && ./p", prints: "hello from C++"},
		{name: "make", group: "C", packages: "make gcc libc6-dev", files: map[string]string{"Makefile": "all: p\n\t./p\np: p.c\n\tcc -o p p.c\n", "p.c": helloC}, run: "make -s -j2", prints: "hello from C"},
		{name: "cmake, ninja, ctest", group: "C", packages: "cmake ninja-build gcc libc6-dev", files: map[string]string{"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nenable_testing()\nadd_executable(p p.c)\nadd_test(NAME t COMMAND p)\n", "p.c": helloC},
			run: "rm -rf b; cmake -S . -B b -G Ninja >/dev/null && ninja -C b >/dev/null && cd b && ctest", prints: "100% tests passed"},
		{name: "autoconf, automake", group: "C", packages: "autoconf automake m4 make gcc libc6-dev", files: map[string]string{"configure.ac": "AC_INIT([p],[1])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n", "Makefile.am": "bin_PROGRAMS = p\np_SOURCES = p.c\n", "p.c": helloC},
			run: "autoreconf -i >/dev/null 2>&1 && ./configure -q >/dev/null && make -s >/dev/null && ./p", prints: "hello from C"},
		{name: "AddressSanitizer", group: "C", cause: `ptrace: .*; allow it with --seccomp build`, packages: "gcc libc6-dev", tool: "cc", files: map[string]string{"p.c": "#include <stdlib.h>\n#include <stdio.h>\nint main(void) { char *p = malloc(8); p[0] = 1; printf(\"%d sane\\n\", p[0]); free(p); return 0; }\n"}, run: "gcc -fsanitize=address -o p p.c && ./p", prints: "1 sane"},
		{name: "gdb", group: "C", cause: `ptrace: .*; allow it with --seccomp build`, packages: "gdb gcc libc6-dev", tool: "cc", files: map[string]string{"p.c": helloC}, run: "gcc -g -o p p.c && gdb -q -batch -ex 'break main' -ex run -ex next -ex next ./p", prints: "hello from C"},
		{name: "strace", group: "C", cause: `ptrace: .*; allow it with --seccomp build`, packages: "strace", tool: "cc", fast: true, run: "strace -f sh -c 'true; /bin/true' 2>&1", prints: "execve(\"/bin/true\""},
		{name: "valgrind", group: "C", packages: "valgrind gcc libc6-dev libc6-dbg", files: map[string]string{"p.c": helloC}, run: "gcc -g -o p p.c && valgrind -q --error-exitcode=9 ./p", prints: "hello from C"},
		{name: "flex and bison", group: "C", packages: "flex bison", files: map[string]string{"l.l": "%option noyywrap\n%%\na { putchar('b'); }\n%%\nint main(void) { return yylex(); }\n", "g.y": "%%\ns: ;\n%%\n"}, run: "bison -o g.c g.y 2>/dev/null && flex -o l.c l.l && gcc -o l l.c && echo xa | ./l", prints: "xb"},

		{name: "javac and java", group: "Java", cause: `"/tmp/.*; allow it with --rw /tmp`, packages: "openjdk-17-jdk-headless", landlock: "AccessDeniedException: /tmp", files: map[string]string{"P.java": "public class P { public static void main(String[] a) throws Exception { java.nio.file.Files.createTempFile(\"a\", \"b\"); System.out.println(\"hello from Java\"); } }\n"}, run: "javac P.java && java P", prints: "hello from Java"},
		{name: "names in Java", group: "Java", packages: "openjdk-17-jdk-headless",
			files: map[string]string{"P.java": "import java.net.InetAddress;\npublic class P { public static void main(String[] a) throws Exception {\nSystem.out.println(InetAddress.getByName(\"localhost\").isLoopbackAddress());\nlong t = System.nanoTime();\ntry { InetAddress.getByName(\"example.com\"); } catch (java.net.UnknownHostException e) { System.out.println(\"not known in \" + ((System.nanoTime() - t) / 1000000 < 1000 ? \"time\" : \"an age\")); } } }\n"},
			run:   "javac P.java && java P", prints: "true\nnot known in time"},
		{name: "jar", group: "Java", packages: "openjdk-17-jdk-headless", files: map[string]string{"P.java": "public class P { public static void main(String[] a) { System.out.println(\"from a jar\"); } }\n"}, run: "javac P.java && jar cfe p.jar P P.class && java -jar p.jar", prints: "from a jar"},

		{name: "ruby", group: "others", packages: "ruby", run: "ruby -rjson -rtempfile -e 'Tempfile.create(\"a\") { |f| f.puts 1 }; puts JSON.generate({a: 1})'", prints: `{"a":1}`},
		{name: "perl", group: "others", packages: "perl", run: "perl -MFile::Temp -e 'my $t = File::Temp->new; print \"hello from Perl\\n\"'", prints: "hello from Perl"},
		{name: "php", group: "others", packages: "php-cli", run: "php -r 'file_put_contents(\"f\", \"x\"); echo json_encode([1, tempnam(\"\", \"a\") != \"\"]), \"\\n\";'", prints: "[1,true]"},
		{name: "lua", group: "others", cause: `"/tmp/.*; allow it with --rw /tmp`, packages: "lua5.4", landlock: "Permission denied", run: "lua5.4 -e 'local f = assert(io.tmpfile()); f:write(1); print(\"hello from Lua\")'", prints: "hello from Lua"},
		{name: "awk, sed, sort", group: "others", packages: "mawk", run: "printf '2 b\\n1 a\\n' | sort | awk '{print $2}' | sed s/a/x/", prints: "x\nb"},
		{name: "bash, with process substitution", group: "others", packages: "bash", run: "bash -c 'diff <(echo a) <(echo b) || cat <<<differs'", prints: "differs"},
		{name: "bc", group: "others", packages: "bc", run: "echo '2^64' | bc", prints: "18446744073709551616"},
		{name: "jq", group: "others", packages: "jq", fast: true, run: "echo '{\"a\": [1, 2]}' | jq -c .a", prints: "[1,2]"},
		{name: "ripgrep", group: "others", packages: "ripgrep", files: map[string]string{"a/b": "needle\n"}, run: "rg -N needle", prints: "needle"},
		{name: "find and xargs", group: "others", packages: "findutils", files: map[string]string{"a/b": "needle\n"}, run: "find . -name b -print0 | xargs -0 cat", prints: "needle"},
		{name: "diff and patch", group: "others", packages: "patch diffutils", files: map[string]string{"a": "1\n", "b": "2\n"}, run: "cp a c; diff -u a b >p || patch -s c p; cat c", prints: "2"},
		{name: "tar, gzip, xz, zip", group: "others", packages: "tar gzip xz-utils zip unzip", files: map[string]string{"a": "packed\n"}, run: "tar czf a.tgz a; tar cJf a.txz a; zip -q a.zip a; rm a; tar xzf a.tgz; tar xJf a.txz; unzip -qo a.zip; cat a", prints: "packed"},
		{name: "rsync", group: "others", packages: "rsync", files: map[string]string{"a/b": "copied\n"}, run: "rsync -a --delete a/ c/; cat c/b", prints: "copied"},
		{name: "openssl", group: "others", packages: "openssl", run: "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 1 -subj /CN=x 2>/dev/null; openssl x509 -in c -noout -subject", prints: "CN = x"},
		{name: "file", group: "others", packages: "file", run: "file -b /bin/sh", prints: "symbolic link"},
		{name: "tree", group: "others", packages: "tree", files: map[string]string{"a/b": ""}, run: "tree --noreport a", prints: "b"},
		{name: "curl", group: "others", packages: "curl", files: map[string]string{"a": "fetched\n"}, run: "curl -s file://$PWD/a", prints: "fetched"},
		{name: "ps and top", group: "others", packages: "procps", run: "ps -o comm= -p $$; top -bn1 | head -1", prints: "sh\ntop"},
		{name: "tmux", group: "terminals", cause: `mkdir "/tmp/tmux-.*; allow it with --rw /tmp`, packages: "tmux", landlock: "Permission denied", run: "tmux new-session -d -s s 'echo in tmux >f; sleep 1'; sleep 0.5; cat f; tmux kill-server", prints: "in tmux"},
		{name: "screen", group: "terminals", cause: `"/run/screen/`, packages: "screen", landlock: "Cannot", run: "screen -dmS s sh -c 'echo in screen >f; sleep 1'; sleep 0.7; cat f", prints: "in screen"},
		{name: "vim", group: "terminals", packages: "vim", files: map[string]string{"a": "old\n"}, run: "vim -es -c '%s/.*/new/' -c wq a; cat a", prints: "new"},
		{name: "emacs", group: "terminals", packages: "emacs-nox", run: "emacs --batch --eval '(princ (* 6 7))'", prints: "42"},
		{name: "script", group: "terminals", cause: `"/dev/ptmx"`, packages: "bsdutils", landlock: "failed", run: "script -qc 'tty' /dev/null", prints: "/dev/pts/"},

		{name: "sqlite3", group: "data", packages: "sqlite3", run: "rm -f d; sqlite3 d 'create table t(a); insert into t values(42); select a from t'", prints: "42"},
		{name: "redis", group: "data", cause: `socket "AF_UNIX"`, packages: "redis-server", landlock: "Could not", run: "redis-server --port 0 --unixsocket $PWD/s --save '' >/dev/null & for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; [ -S s ] && break; done; redis-cli -s s set a 1; redis-cli -s s get a; redis-cli -s s shutdown nosave", prints: "OK\n1"},
		{name: "dpkg -l", group: "the system", packages: "dpkg", run: "dpkg -l dpkg | tail -1 | cut -c1-2", prints: "ii"},
		{name: "apt-cache", group: "the system", cause: `"/var/lib/apt/lists.*; allow it with --ro /`, packages: "apt", landlock: "Permission denied", run: "apt-cache policy dpkg | grep -c Installed", prints: "1"},
		{name: "lscpu and nproc", group: "the system", packages: "util-linux", run: "lscpu | grep -c '^CPU(s)'; nproc", prints: "1"},
		{name: "id and hostname", group: "the system", packages: "coreutils", run: "id -un >/dev/null 2>&1 || true; id -u; hostname >name; wc -l <name", prints: "1"},
		{name: "df and free", group: "the system", packages: "procps", run: "df -P . | tail -1 | wc -l; free | wc -l", prints: "1\n3"},

		{name: "ImageMagick", group: "media", packages: "imagemagick", run: "convert -size 8x8 xc:red a.png; identify a.png", prints: "PNG 8x8"},
		{name: "ffmpeg", group: "media", packages: "ffmpeg", run: "ffmpeg -loglevel error -y -f lavfi -i testsrc=size=32x32:duration=1 a.mp4; ffprobe -v error -show_entries format=format_name -of csv a.mp4", prints: "mp4"},
		{name: "pandoc", group: "media", packages: "pandoc", files: map[string]string{"a.md": "# Title\n"}, run: "pandoc a.md -o a.docx; pandoc a.docx -t plain", prints: "Title"},
		{name: "graphviz", group: "media", packages: "graphviz", run: "echo 'digraph { a -> b }' | dot -Tsvg | grep -c '<svg'", prints: "1"},
		{name: "gnuplot", group: "media", packages: "gnuplot-nox", run: "gnuplot -e \"set term dumb; plot sin(x)\" | grep -c '*'", prints: "1"},
		{name: "ghostscript, poppler, qpdf", group: "media", packages: "ghostscript poppler-utils qpdf", run: "echo '%!\n/Times-Roman findfont 20 scalefont setfont 50 50 moveto (printed) show showpage' >a.ps; ps2pdf a.ps a.pdf; qpdf --check a.pdf >/dev/null; pdftotext a.pdf -", prints: "printed"},
		{name: "xmllint, tidy", group: "media", packages: "libxml2-utils tidy", run: "echo '<a><b/></a>' | xmllint --xpath 'count(//b)' -; echo '<p>x' | tidy -q 2>/dev/null | grep -c '<p>'", prints: "1"},
		{name: "gpg", group: "keys", cause: `socket "AF_UNIX"`, packages: "gnupg", landlock: "gpg: ", run: "rm -f a.sig; echo x >a; gpg --batch -q --passphrase '' --quick-gen-key a@example.com default default never; gpg --batch -q --detach-sign a; gpg --verify a.sig 2>&1 | grep -c Good", prints: "1"},
		{name: "ssh-keygen", group: "keys", packages: "openssh-client", run: "rm -f k k.pub; ssh-keygen -q -t ed25519 -N '' -f k; ssh-keygen -lf k.pub | grep -c ED25519", prints: "1"},
		{name: "ssh-agent", group: "keys", cause: `socket "AF_UNIX"`, packages: "openssh-client", landlock: "Operation not permitted", run: "rm -f k k.pub s; ssh-keygen -q -t ed25519 -N '' -f k; ssh-agent -a $PWD/s sh -c 'ssh-add -q k; ssh-add -l'", prints: "ED25519"},

		{name: "a page as a picture", group: "Large programs", cause: `(clone: the filter|socket "AF_)`, packages: "chromium", tool: "browser", landlock: "socket() failed: Operation not permitted", files: map[string]string{"a.html": "<h1>hello</h1>\n"},
			run: "rm -f shot.png; chromium --headless --disable-gpu --window-size=200,200 --screenshot=shot.png file://$PWD/a.html 2>&1 && file shot.png", prints: "PNG image data, 200 x 200"},
		{name: "LibreOffice, to PDF", group: "Large programs", cause: `socket "AF_UNIX"`, packages: "libreoffice-writer-nogui poppler-utils", landlock: "exit code 1", files: map[string]string{"a.txt": "hello\n"},
			run: "rm -f a.pdf; soffice --headless --convert-to pdf a.txt >/dev/null || { echo exit code $?; exit 1; }; pdftotext a.pdf -", prints: "hello"},
		{name: "Jupyter, a notebook", group: "Large programs", cause: `"AF_INET6?": .*; allow it with --net host`, packages: "jupyter-nbconvert python3-ipykernel", landlock: "Operation not permitted", files: map[string]string{"n.ipynb": `{"cells": [{"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": ["print('it is', 6*7)"]}], "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}, "nbformat": 4, "nbformat_minor": 4}`},
			run: "jupyter-nbconvert --to markdown --execute --stdout n.ipynb 2>&1", prints: "it is 42"},
		{name: "PostgreSQL, in the workspace", group: "Large programs", cause: `shm|socket`, packages: "postgresql", landlock: "Function not implemented",
			run:    "b=$(echo /usr/lib/postgresql/*/bin); rm -rf db; $b/initdb -D db >/dev/null; $b/pg_ctl -D db -o \"-k $PWD -c listen_addresses=\" -l log -w start >/dev/null || { cat log; exit 1; }; psql -h $PWD -Atc 'select 6*7' postgres; $b/pg_ctl -D db -m fast stop >/dev/null",
			prints: "42"},
	}, withHost()...)
}
