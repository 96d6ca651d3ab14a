// Runs commands in the sandbox of @anthropic-ai/sandbox-runtime, as an agent does: one manager, one wrapped shell command after the other.
// Standard input is {config, commands}, by name; standard output is what came of each.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const { config, commands } = JSON.parse(readFileSync(0, 'utf8'))
const { SandboxManager } = await import(pathToFileURL(process.argv[2]).href)

function run(wrapped) {
  return new Promise((resolve, reject) => {
    const child = spawn(wrapped, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
    let stdout = ''
    let stderr = ''
    child.stdout.on('data', data => { stdout += data })
    child.stderr.on('data', data => { stderr += data })
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
  })
}

await SandboxManager.initialize(config)
const results = {}
for (const [name, command] of Object.entries(commands)) {
  results[name] = await run(await SandboxManager.wrapWithSandbox(command))
  SandboxManager.cleanupAfterCommand()
}
await SandboxManager.reset()
console.log(JSON.stringify(results))
