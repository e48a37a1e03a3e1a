/**
 * What a holder runs until its mounts are made: it says `held`, waits for a line, makes the mounts of a table, says `ready`, and becomes a
 * `cat` that reaps orphans (an ignored SIGCHLD makes the kernel do it).
 * Promise: the same mounts whether Perl calls mount(2) for each line or mount(8) reads the table; a failure is told in mount(8)'s words.
 * Rules: W17, W23, P4; 04 "Holder".
 *
 * From the line that begins them to `ready`, the mounts of a workspace took 1.7 ms in Perl, which every Debian has, and 4.1 with mount(8)
 * (medians of 60, two cores). Without Perl, a shell does it.
 */
import type { Tools } from "./Machine.ts"

/** mount(2) by architecture as Node names it (the kernel's syscall tables); by mount(8) anywhere else. */
const callNumbers: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 165, arm64: 40, riscv64: 40 }

/**
 * Takes up the loopback of a network namespace: by Perl (SIOCSIFFLAGS, IFF_UP: netdevice(7)), else by iproute2. Without either there is
 * no loopback, and the read-back says so.
 */
const loopbackUp = String.raw`my $s; my $up = pack("a16 s x22", "lo", 1); socket($s, 2, 2, 0) && ioctl($s, 0x8914, $up) or system("ip link set lo up 2> /dev/null");`

/**
 * Fields of a line are as in fstab(5). Flags are those of mount(2); what is none goes to the file system. A bind with flags is a bind and a
 * remount, as with mount(8). No module is loaded. A perl of 32 bits would need other numbers: it leaves the work to mount(8).
 */
const inPerl = String.raw`
my ($directory, $table, $number, $mount, $cat, $network) = @ARGV;
if ($network eq "none") { ${loopbackUp} }
syswrite(STDOUT, "held\n");
sysread(STDIN, my $go, 1) or exit 1;
umask 022;
chdir $directory or do { syswrite(STDERR, "mount: $directory: $!\n"); exit 32 };
my %flag = (ro => 1, nosuid => 2, nodev => 4, noexec => 8, remount => 32, noatime => 1024, nodiratime => 2048,
  bind => 4096, rbind => 4096 | 16384, relatime => 1 << 21);
sub mounted {
  my ($source, $target, $type, $flags, $data) = @_;
  my $done = length($data) < 4096 && syscall($number + 0, $source, $target, $type, $flags, $data) == 0;
  return if $done;
  my $why = length($data) >= 4096 ? "too many options." : "$!.";
  $why = "mount point does not exist." if $! == 2 && !-e $target;
  $why = "mount point not mounted or bad option." if $! == 22 && ($flags & 32);
  syswrite(STDERR, "mount: $target: $why\n");
  exit 32;
}
if ($number == 0 || length(pack("p", "")) != 8) { system($mount, "-a", "-T", $table) == 0 or exit 32 }
else {
  open(my $lines, "<", $table) or do { syswrite(STDERR, "mount: $table: $!\n"); exit 32 };
  while (my $line = <$lines>) {
    my ($source, $target, $type, $options) = map { s/\\([0-7]{3})/chr(oct($1))/ger } split(/ /, $line);
    my ($flags, $make, @data) = (0, 0);
    for my $option (split(/,/, $options)) {
      if ($option eq "X-mount.mkdir") { $make = 1 }
      elsif (exists $flag{$option}) { $flags |= $flag{$option} }
      else { push(@data, $option) }
    }
    if ($make) { my $at = ""; for my $name (split(m{/}, $target)) { next if $name eq ""; $at .= "/$name"; mkdir($at, 0755) } }
    my $data = join(",", @data);
    my $bind = $flags & (4096 | 16384);
    if (!$bind || $flags & 32) { mounted($source, $target, $type, $flags, $data) }
    else {
      mounted($source, $target, $type, $bind, $data);
      mounted($source, $target, $type, 32 | 4096 | ($flags & ~$bind), $data) if $flags & ~$bind;
    }
  }
}
$SIG{CHLD} = "IGNORE";
syswrite(STDOUT, "ready\n");
exec { $cat } $cat;
`

const inShell = `[ "$6" != none ] || ip link set lo up 2> /dev/null; echo held && read -r _ && cd "$1" && "$2" -a -T "$3" && echo ready && exec "$4" --ignore-signal=CHLD "$5"`

/** The command that a holder's first process is. `directory` is where it stands while it mounts: names of layers are relative to it. */
export const mounter = (
  tools: Tools,
  directory: string,
  table: string,
  network: "host" | "none"
): readonly [string, ...string[]] => {
  const { perl, sh, mount, env, cat } = tools
  if (perl === undefined) return [sh, "-c", inShell, "sh", directory, mount, table, env, cat, network]
  const number = String(callNumbers[process.arch] ?? 0)
  // `-f`: nothing of the machine's own Perl settings is run.
  return [perl, "-fe", inPerl, directory, table, number, mount, cat, network]
}
