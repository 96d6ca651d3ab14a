/* Looks names up with the C library that it is linked with. */
#include <netdb.h>
#include <stdio.h>

int main(int n, char **names) {
  for (int i = 1; i < n; i++) {
    struct addrinfo *found;
    int fault = getaddrinfo(names[i], 0, 0, &found);
    printf("%s: %s\n", names[i], fault ? gai_strerror(fault) : "found");
  }
}
