#!/usr/bin/env bash
# usage: check.sh
#
# Builds the example, whose client is generated, and runs it with a real console, a worker and a private Redis.
#
# Maven builds it as pom.xml says. If Maven cannot get the plugins, which it says, the same version of the generator comes from PyPI and gets the
# settings of pom.xml, and javac compiles what it writes. Without a JDK or Maven, nothing is checked, which is said, too. STREAMFLEET_BIN is the program;
# by default, the newest build.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../stage.sh
. "$here/../stage.sh"
for tool in javac mvn; do
  if ! command -v "$tool" >/dev/null; then
    skip "the client for Java: $tool is not on the PATH: apt-get install default-jdk-headless maven"
    exit 0
  fi
done

# By Maven, which leaves its folder `target` elsewhere.
built_by_maven() {
  cp -R "$here/src" "$work"
  sed "s|\${project.basedir}|$here|" "$here/pom.xml" >"$work/pom.xml"
  (cd "$work" && mvn -B -q compile) >"$work/said" 2>&1 || return 1
  run() { (cd "$work" && mvn -B -q exec:java); }
}

# The settings of the plugin as those of the program.
settings() {
  python3 - "$here/pom.xml" "$here" <<'PYTHON'
import sys
import xml.etree.ElementTree

names = {"pom": "http://maven.apache.org/POM/4.0.0"}
of_plugin = xml.etree.ElementTree.parse(sys.argv[1]).find(".//pom:plugin[pom:artifactId='openapi-generator-maven-plugin']", names)
settings = of_plugin.find(".//pom:configuration", names)
options = {
    "--generator-name": "generatorName",
    "--input-spec": "inputSpec",
    "--library": "library",
    "--invoker-package": "invokerPackage",
    "--api-package": "apiPackage",
    "--model-package": "modelPackage",
    "--parameter-name-mappings": "parameterNameMappings/pom:parameterNameMapping",
}
for option, name in options.items():
    print(option, settings.find(f"pom:{name}", names).text.replace("${project.basedir}", sys.argv[2]), sep="\n")
print("--additional-properties", ",".join(f"{each.tag.partition('}')[2]}={each.text}" for each in settings.find("pom:configOptions", names)), sep="\n")
PYTHON
}

built_by_hand() {
  local given jar annotations=/usr/share/java/jakarta-annotation-api.jar
  sed -n '/<artifactId>openapi-generator-maven-plugin</,/<version>/s|.*<version>\(.*\)</version>|openapi-generator-cli==\1|p' "$here/pom.xml" >"$work/requirements.txt"
  python_set "$work/requirements.txt"
  jar=$(python3 -c 'import openapi_generator_cli, pathlib; print(pathlib.Path(openapi_generator_cli.__file__).with_name("openapi-generator.jar"))')
  [ -e "$annotations" ] || from_system libjakarta-annotation-api-java
  readarray -t given < <(settings)
  { java -Dlog.level=warn -jar "$jar" generate "${given[@]}" --output "$work/generated" &&
    find "$work/generated/src/main/java" "$here/src" -name '*.java' >"$work/sources" &&
    javac -nowarn -proc:none -d "$work/classes" -cp "$jar:$annotations" "@$work/sources"; } >"$work/said" 2>&1 || return 1
  classes=$work/classes:$jar:$annotations
  run() { java -cp "$classes" shop.Shop; }
}

works() {
  run >"$work/printed" 2>&1 && diff - "$work/printed" <<'TEXT'
order-7 is accepted
order-7 existed already
the second report is the first one
invoices-2026-11.0 is done
invoices-2026-11.1 is done
invoices-2026-11.2 is done
invoices-2026-11-total is done
the charge is dead
dead letter: card.charge: the card is expired
TEXT
}

if built_by_maven; then
  right "Maven generates the client and compiles the example"
elif grep -q "Unknown host\|Could not transfer\|No plugin found\|could not be resolved" "$work/said"; then
  skip "pom.xml: Maven cannot get the plugins"
  built_by_hand || stop "the client that the generator of PyPI has written cannot be compiled"
  right "the generator of PyPI writes the client by the settings of pom.xml, and javac compiles the example"
else
  stop "Maven cannot build the example"
fi
start_fleet
expect "the example submits, waits, and reads dead letters" works
TOKEN=wrong refused "a token that is wrong" "401" run
CONSOLE=http://127.0.0.1:9 refused "an address at which nothing listens" "the console did not answer" run
account "client for Java"
