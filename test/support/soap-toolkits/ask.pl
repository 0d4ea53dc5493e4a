# Asks by libsoap-lite-perl: ask.pl URL NAME PASSWORD STATEMENT CATALOG INFO
#
# Prints one line of JSON for each answer: what was asked, Cache-Status, and the text.

use strict;
use warnings;
use Encode qw(decode);
use JSON::PP;
use SOAP::Lite;

my ($url, $name, $password, $statement, $catalog, $info) = map { decode('UTF-8', $_) } @ARGV;
my $XMLA = 'urn:schemas-microsoft-com:xml-analysis';

# It asks without a login first; the letters beyond ASCII of that go out in ISO-8859-1.
sub SOAP::Transport::HTTP::Client::get_basic_credentials { return ($name, $password) }

my $client = SOAP::Lite->proxy($url)->default_ns($XMLA)->outputxml(1);

sub element { my ($local, @rest) = @_; return SOAP::Data->name($local => @rest) }

sub text { my ($local, $value) = @_; return SOAP::Data->name($local)->type(string => $value) }

sub told {
    my ($what) = @_;
    my $answer = $client->transport->http_response;
    my $text = decode('UTF-8', $answer->content);
    my $line = { what => $what, cacheStatus => scalar $answer->header('Cache-Status'), text => $text };
    print JSON::PP->new->ascii->canonical->encode($line), "\n";
    return $text =~ /SessionId="([^"]+)"/ ? $1 : undef;
}

sub block {
    my ($kind, $session) = @_;
    my %named = defined $session ? (SessionId => $session) : ();
    return SOAP::Header->name($kind, '')->attr({ xmlns => $XMLA, mustUnderstand => 1, %named });
}

sub execute {
    my ($text, @header) = @_;
    my $properties = element(PropertyList => \SOAP::Data->value(
        text(DataSourceInfo => $info), text(Catalog => $catalog), text(Format => 'Multidimensional'),
    ));
    return $client->call(
        Execute => @header,
        element(Command => \text(Statement => $text)),
        element(Properties => \($text eq '' ? element(PropertyList => '') : $properties)),
    );
}

told(discover => $client->call(
    Discover => element(RequestType => 'MDSCHEMA_CUBES'),
    element(Restrictions => \element(RestrictionList => '')),
    element('Properties')->value(undef),
));
told(execute => execute($statement));
my $session = told(begin => execute('', block('BeginSession')));
told('in session' => execute($statement, block(Session => $session)));
told(end => execute('', block(EndSession => $session)));
