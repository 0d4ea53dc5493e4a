/** The text of `--help`. */
export const HELP = `mdx-gateway: a caching reverse proxy for OLAP engines that speak XMLA

  mdx-gateway [serve] [--config FILE]   run the gateway; without FILE every key has its default
  mdx-gateway demo [--once] [--port N]  run the gateway before a made-up engine, on this machine only;
                                        --once shows what it does and ends
  mdx-gateway check --config FILE       say what is wrong with a configuration, or print the one in effect
  mdx-gateway hash-password [NAME]      ask for a password, or read a line of standard input, and print
                                        the line for the users file; without NAME the hash alone
  mdx-gateway export-store --config FILE [--output FILE]
                                        write all roles and datasets as lines of JSON to a new file, or to
                                        standard output; the gateway may run meanwhile
  mdx-gateway import-store --config FILE [--input FILE]
                                        read them from a file, or from standard input, into a storage that
                                        holds none yet: all of them, or none
  mdx-gateway --help
  mdx-gateway --version

The first user:       mdx-gateway hash-password ADMIN >> users.htpasswd
Every key of FILE:    docs/CONFIGURATION.md
Ready examples:       config/

Exit status: 0 done, 1 the configuration or the input is wrong, 2 the command line is wrong.
`;
