package programs

const ofHost = "what the host has"

// withHost are rows of the table that need what a user has on the host: fetched packages, and keys.
func withHost() []everyday {
	return []everyday{
		{name: "go, a fetched module", group: ofHost, packages: "zip", tool: "go", cause: `/go/pkg/mod/.*the host has it, the sandbox does not`,
			files: map[string]string{"go.mod": "module example.com/p\n\ngo 1.21\n\nrequire example.com/dep v1.0.0\n", "main.go": "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(\"dep says\", dep.Seven) }\n",
				"dep/example.com/dep@v1.0.0/go.mod": "module example.com/dep\n", "dep/example.com/dep@v1.0.0/dep.go": "package dep\n\nconst Seven = 7\n"},
			prepare: "at=proxy/example.com/dep/@v; mkdir -p $at; cp dep/*/*/go.mod $at/v1.0.0.mod; echo '{\"Version\": \"v1.0.0\"}' >$at/v1.0.0.info; (cd dep; zip -qDr ../$at/v1.0.0.zip .)\n" +
				"GOPROXY=file://$PWD/proxy GONOSUMDB='*' GOFLAGS='-modcacherw -mod=mod' go mod download all; rm -r proxy dep",
			run: "go list -deps . && go mod verify", prints: "example.com/p\nall modules verified"}, // go run has a row of its own
		{name: "npm, a fetched package", group: ofHost, packages: "npm openssl", tool: "node", copies: true, cause: `/\.npm/.*the host has it, the sandbox does not`,
			files: map[string]string{"left/package.json": `{"name": "left", "version": "1.0.0"}`, "left/index.js": "module.exports = 7\n", "package.json": `{"name": "p", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}`},
			prepare: "npm pack --silent ./left; npm cache add ./left-1.0.0.tgz; sum=$(openssl dgst -sha512 -binary left-1.0.0.tgz | base64 -w0); rm -r left*\n" +
				`echo '{"name": "p", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {"": {"name": "p", "version": "1.0.0", "dependencies": {"left": "1.0.0"}},' >package-lock.json` + "\n" +
				`echo '"node_modules/left": {"version": "1.0.0", "resolved": "https://registry.example/left/-/left-1.0.0.tgz", "integrity": "sha512-'$sum'"}}}' >>package-lock.json`,
			run: "rm -rf node_modules; npm ci --offline --silent; node -p 'require(\"left\")'", prints: "7"},
		{name: "cargo, a fetched crate", group: ofHost, packages: "cargo git", tool: "rust", copies: true, cause: `/\.cargo/registry/.*the host has it, the sandbox does not`,
			files: map[string]string{"Cargo.toml": "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ndep = { version = \"1\", registry = \"mine\" }\n", "src/main.rs": "fn main() { println!(\"dep says {}\", dep::seven()); }\n",
				"dep-1.0.0/Cargo.toml": "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n", "dep-1.0.0/src/lib.rs": "pub fn seven() -> u8 { 7 }\n"},
			prepare: "mkdir dep; tar czf dep/dep-1.0.0.crate dep-1.0.0; sum=$(sha256sum dep/*.crate | cut -d' ' -f1); mkdir -p .cargo index/3/d; printf '[registries.mine]\\nindex = \"file://%s/index\"\\n' $PWD >.cargo/config.toml\n" +
				`echo '{"dl": "file://'$PWD'/dep/{crate}-{version}.crate"}' >index/config.json; echo '{"name": "dep", "vers": "1.0.0", "deps": [], "cksum": "'$sum'", "features": {}, "yanked": false}' >index/3/d/dep` + "\n" +
				"git init -q index; git -C index add .; git -C index -c user.name=a -c user.email=a@b commit -qm one; cargo fetch -q; rm -rf index dep*",
			run: "rm -rf target; cargo run -q", prints: "dep says 7"},
		{name: "pip install --user", group: ofHost, packages: "python3-pip python3-setuptools", tool: "python", cause: `/\.local/lib/python3.*the host has it, the sandbox does not`, files: map[string]string{"p/setup.py": "from setuptools import setup\nsetup(name='dep', version='1', py_modules=['dep'])\n", "p/dep.py": "seven = 7\n"},
			prepare: "pip install -q --user --break-system-packages --no-build-isolation --no-index ./p; rm -r p", run: "python3 -c 'import dep; print(\"dep says\", dep.seven)'", prints: "dep says 7"},
		{name: "gem install --user-install", group: ofHost, packages: "ruby", tool: "ruby", copies: true, cause: `/\.local/share/gem/ruby.*the host has it, the sandbox does not`, files: map[string]string{"lib/dep.rb": "Seven = 7\n", "dep.gemspec": "Gem::Specification.new { |s| s.name = 'dep'; s.version = '1.0.0'; s.summary = 's'; s.authors = ['a']; s.files = ['lib/dep.rb'] }\n"},
			prepare: "gem build -q dep.gemspec 2>/dev/null; gem install -q --local --user-install --no-document dep-1.0.0.gem; rm -r lib dep*", run: "ruby -e 'require \"dep\"; puts \"dep says #{Seven}\"'", prints: "dep says 7"},
		{name: "mvn, a fetched parent", group: ofHost, packages: "maven", tool: "java", copies: true, cause: `/\.m2/repository.*the host has it, the sandbox does not`,
			files: map[string]string{"pom.xml": "<project><modelVersion>4.0.0</modelVersion><parent><groupId>com.example</groupId><artifactId>top</artifactId><version>1</version><relativePath/></parent><artifactId>p</artifactId><packaging>pom</packaging></project>\n",
				"top.pom": "<project><modelVersion>4.0.0</modelVersion><groupId>com.example</groupId><artifactId>top</artifactId><version>1</version><packaging>pom</packaging></project>\n"},
			prepare: "at=$HOME/.m2/repository/com/example/top/1; mkdir -p $at; mv top.pom $at/top-1.pom", run: "mvn -B -o validate 2>&1", prints: "BUILD SUCCESS"},
		{name: "ssh-add -l", group: ofHost, packages: "openssh-client", tool: "ssh", cause: nothing, landlock: "Could not open a connection",
			prepare: "ssh-keygen -q -t ed25519 -N '' -C mine -f $HOME/k", around: "ssh-add -q $HOME/k", run: "ssh-add -l", prints: " mine "},
		{name: "gpg --list-keys", group: ofHost, packages: "gnupg", tool: "gpg", cause: `a place of keys`,
			prepare: "mkdir -m 700 $HOME/.gnupg; gpg --batch -q --passphrase '' --quick-gen-key ann@example.com default default never; gpgconf --kill gpg-agent", run: "gpg --list-keys ann@example.com", prints: "ann@example.com"},
	}
}
