// Package vagrant tests what people use who run the tests in virtual machines of their own: Vagrantfile and scripts/guest.sh. Vagrant itself
// reads the one; the other prints what it would do on each distribution, fetches a Go that is made here, and runs tests that are made here.
//
//	go test ./e2e/vagrant -update    # writes the golden anew
//
// It protects nothing, and brings no machine up: that boxes are where Vagrantfile says, and that packages have these names, it does not show.
package vagrant
